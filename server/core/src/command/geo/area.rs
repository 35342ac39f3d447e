//! Circles and boxes on the earth: whether a position is inside, and which cells have to be searched
//! (`geohash_helper.c`). Knows no key.

use super::cell::{Cell, Position, STEPS_MAX};

/// The earth as a sphere, in metres.
const EARTH_RADIUS: f64 = 6_372_797.560856;
/// Half of the equator in the projection, in metres: the radius for which one step is right.
const MERCATOR_MAX: f64 = 20_037_726.37;

/// The great-circle distance of two positions in metres, by the haversine formula.
pub(super) fn distance(a: Position, b: Position) -> f64 {
    let half = ((b.longitude.to_radians_c() - a.longitude.to_radians_c()) / 2.0).sin();
    if half == 0.0 {
        return distance_north(a.latitude, b.latitude);
    }
    let (latitude_a, latitude_b) = (a.latitude.to_radians_c(), b.latitude.to_radians_c());
    let north = ((latitude_b - latitude_a) / 2.0).sin();
    let square = north * north + latitude_a.cos() * latitude_b.cos() * half * half;
    2.0 * EARTH_RADIUS * square.sqrt().asin()
}

/// The distance of two latitudes in metres.
fn distance_north(a: f64, b: f64) -> f64 {
    EARTH_RADIUS * (b.to_radians_c() - a.to_radians_c()).abs()
}

/// Degrees and radians with the factor of Redis, so that the last bits agree.
trait Degrees {
    fn to_radians_c(self) -> f64;
    fn to_degrees_c(self) -> f64;
}

const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;

impl Degrees for f64 {
    fn to_radians_c(self) -> f64 {
        self * RADIANS_PER_DEGREE
    }

    fn to_degrees_c(self) -> f64 {
        self / RADIANS_PER_DEGREE
    }
}

/// Area around the centre of a search. Lengths are in metres.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

/// A circle or a box with its centre.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) centre: Position,
    pub(super) shape: Shape,
}

impl Region {
    /// The distance of a position from the centre in metres, if the position is inside.
    pub(super) fn distance_within(&self, position: Position) -> Option<f64> {
        match self.shape {
            Shape::Circle { radius } => {
                let distance = distance(self.centre, position);
                // The distance to the opposite side of the earth may be NaN: then the position is inside.
                let is_outside = distance > radius;
                (!is_outside).then_some(distance)
            }
            Shape::Box { width, height } => {
                let level = Position {
                    longitude: self.centre.longitude,
                    latitude: position.latitude,
                };
                let is_outside = distance_north(position.latitude, self.centre.latitude)
                    > height / 2.0
                    || distance(position, level) > width / 2.0;
                (!is_outside).then(|| distance(self.centre, position))
            }
        }
    }

    /// The cells that together contain the region, in the order in which Redis searches them
    /// (`geo.c: membersOfAllNeighbors`).
    pub(super) fn cells(&self) -> Vec<Cell> {
        let bounds = self.bounds();
        let mut steps = self.steps();
        let mut cell = Cell::at(self.centre, steps);
        if steps > 1 && !bounds.are_within_neighbours(cell) {
            steps -= 1;
            cell = Cell::at(self.centre, steps);
        }
        let area = cell.area();
        // If the cell itself reaches beyond the region in a direction, the neighbours there are not needed.
        let is_needed = |east: i8, north: i8| {
            steps < 2
                || !(north < 0 && area.latitude[0] < bounds.latitude[0]
                    || north > 0 && area.latitude[1] > bounds.latitude[1]
                    || east < 0 && area.longitude[0] < bounds.longitude[0]
                    || east > 0 && area.longitude[1] > bounds.longitude[1])
        };
        let mut cells = vec![cell];
        for (east, north) in NEIGHBOURS {
            let neighbour = cell.neighbour(east, north);
            // If two cells span the world, the neighbours on both sides are the same.
            if is_needed(east, north) && !cells.contains(&neighbour) {
                cells.push(neighbour);
            }
        }
        cells
    }

    /// The bounds of the region in degrees (`geohashBoundingBox`).
    fn bounds(&self) -> Bounds {
        let (width, height) = match self.shape {
            Shape::Circle { radius } => (radius, radius),
            Shape::Box { width, height } => (width / 2.0, height / 2.0),
        };
        let Position {
            longitude,
            latitude,
        } = self.centre;
        let north = (height / EARTH_RADIUS).to_degrees_c();
        // Meridians are nearest to each other on the side of the pole.
        let nearest = if latitude < 0.0 {
            latitude - north
        } else {
            latitude + north
        };
        let east = (width / EARTH_RADIUS / nearest.to_radians_c().cos()).to_degrees_c();
        Bounds {
            longitude: [longitude - east, longitude + east],
            latitude: [latitude - north, latitude + north],
        }
    }

    /// Returns the depth of the smallest cells of which nine cover the region
    /// (`geohashEstimateStepsByRadius`).
    fn steps(&self) -> u32 {
        let mut radius = match self.shape {
            Shape::Circle { radius } => radius,
            Shape::Box { width, height } => {
                let (width, height) = (width / 2.0, height / 2.0);
                (width * width + height * height).sqrt()
            }
        };
        if radius == 0.0 {
            return STEPS_MAX;
        }
        let mut steps: i32 = 1;
        while radius < MERCATOR_MAX {
            radius *= 2.0;
            steps += 1;
        }
        let latitude = self.centre.latitude.abs();
        // Two fewer for safety, and fewer still where meridians are close to each other.
        steps -= 2 + i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        steps.clamp(1, STEPS_MAX as i32) as u32
    }
}

/// Steps to the east and to the north, in the order in which Redis searches the neighbours of a cell.
const NEIGHBOURS: [(i8, i8); 8] = [
    (0, 1),
    (0, -1),
    (1, 0),
    (-1, 0),
    (1, 1),
    (-1, 1),
    (1, -1),
    (-1, -1),
];

/// Lowest and highest coordinates of a region in degrees. They may be beyond those of the world, or not numbers.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    longitude: [f64; 2],
    latitude: [f64; 2],
}

impl Bounds {
    /// True unless the region visibly reaches beyond the four neighbours of a cell.
    fn are_within_neighbours(&self, cell: Cell) -> bool {
        let neighbour = |east, north| cell.neighbour(east, north).area();
        let is_beyond = neighbour(0, 1).latitude[1] < self.latitude[1]
            || neighbour(0, -1).latitude[0] > self.latitude[0]
            || neighbour(1, 0).longitude[1] < self.longitude[1]
            || neighbour(-1, 0).longitude[0] > self.longitude[0];
        !is_beyond
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(longitude: f64, latitude: f64) -> Position {
        Position {
            longitude,
            latitude,
        }
    }

    #[test]
    fn distances_follow_the_great_circle() {
        let (palermo, catania) = (
            position(13.361389, 38.115556),
            position(15.087269, 37.502669),
        );
        assert!((distance(palermo, catania) - 166_274.0).abs() < 1.0);
        let quarter = distance(position(0.0, 0.0), position(90.0, 0.0));
        assert!((quarter - EARTH_RADIUS * std::f64::consts::FRAC_PI_2).abs() < 1e-6);
    }

    #[test]
    fn the_cells_of_a_region_contain_it() {
        for (longitude, latitude) in [(0.0, 0.0), (13.4, 52.5), (-179.9, -70.0), (10.0, 84.0)] {
            for metres in [0.0, 1.0, 900.0, 50_000.0, 3_000_000.0] {
                let region = Region {
                    centre: position(longitude, latitude),
                    shape: Shape::Circle { radius: metres },
                };
                let cells = region.cells();
                assert!(cells.len() <= 9);
                for (east, north) in NEIGHBOURS {
                    let degrees = (metres / EARTH_RADIUS).to_degrees_c() * 0.7;
                    let moved = position(
                        longitude + f64::from(east) * degrees,
                        latitude + f64::from(north) * degrees,
                    );
                    if !moved.is_valid() || region.distance_within(moved).is_none() {
                        continue;
                    }
                    let score = moved.to_score();
                    let holds = |cell: &Cell| {
                        let (first, behind) = cell.scores();
                        (first..behind).contains(&score)
                    };
                    assert!(cells.iter().any(holds), "{region:?} {moved:?}");
                }
            }
        }
    }

    #[test]
    fn regions_without_bounds_are_searched_too() {
        for radius in [f64::INFINITY, 1e300] {
            let region = Region {
                centre: position(1.0, 1.0),
                shape: Shape::Circle { radius },
            };
            assert!(region.cells().len() > 1, "{radius}");
            assert!(region.distance_within(position(-179.0, -80.0)).is_some());
        }
    }
}
