//! Geohash cells: a position as a number of 52 bits, which is the score of its member, and the cells around it
//! (`geohash.c`). Bits of the latitude and of the longitude take turns. Knows no distance and no key.

/// Bits of each coordinate in a score.
pub(super) const STEPS_MAX: u32 = 26;

const LONGITUDE_MAX: f64 = 180.0;
/// The projection that Redis uses (EPSG:3857) has no poles.
const LATITUDE_MAX: f64 = 85.05112878;
/// A geohash text covers the poles too (`geo.c: geohashCommand`).
const TEXT_LATITUDE_MAX: f64 = 90.0;

const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;
const LONGITUDE_BITS: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// A point, in degrees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Position {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

impl Position {
    /// True if the position has a cell.
    pub(super) fn is_valid(self) -> bool {
        (-LONGITUDE_MAX..=LONGITUDE_MAX).contains(&self.longitude)
            && (-LATITUDE_MAX..=LATITUDE_MAX).contains(&self.latitude)
    }

    /// The score of a member at this position.
    pub(super) fn to_score(self) -> f64 {
        Cell::at(self, STEPS_MAX).first_score() as f64
    }

    /// Returns the middle of the cell of a score (`geo.c: decodeGeohash`). Every score has a cell.
    pub(super) fn of_score(score: f64) -> Self {
        let cell = Cell {
            bits: unsigned(score),
            steps: STEPS_MAX,
        };
        let area = cell.area();
        let middle =
            |[low, high]: [f64; 2], limit: f64| (f64::midpoint(low, high)).clamp(-limit, limit);
        Self {
            longitude: middle(area.longitude, LONGITUDE_MAX),
            latitude: middle(area.latitude, LATITUDE_MAX),
        }
    }

    /// The geohash of eleven characters. The last one is always `0`: 52 bits make ten.
    pub(super) fn to_text(self) -> String {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        const CHARACTERS: u32 = 10;
        let bits = Cell::within(self, STEPS_MAX, TEXT_LATITUDE_MAX).bits;
        let character = |at: u32| {
            let index = bits >> (2 * STEPS_MAX - 5 * (at + 1)) & 0x1f;
            char::from(ALPHABET[index as usize])
        };
        (0..CHARACTERS).map(character).chain(['0']).collect()
    }
}

/// Converts a double to an unsigned integer as C on x86-64 does.
fn unsigned(value: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if value < HALF {
        return value as i64 as u64;
    }
    let rest = value - HALF;
    let rest = if rest < HALF { rest as i64 } else { i64::MIN };
    rest as u64 ^ 1 << 63
}

/// The bounds of a cell in degrees: lowest and highest longitude, lowest and highest latitude.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) longitude: [f64; 2],
    pub(super) latitude: [f64; 2],
}

/// A cell: the area of all positions whose coordinates begin with the same `steps` bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    bits: u64,
    steps: u32,
}

impl Cell {
    /// The cell around a valid position.
    pub(super) fn at(position: Position, steps: u32) -> Self {
        Self::within(position, steps, LATITUDE_MAX)
    }

    fn within(position: Position, steps: u32, latitude_max: f64) -> Self {
        let offset = |value: f64, max: f64| {
            let part = (value + max) / (max + max);
            (part * (1_u64 << steps) as f64) as u32
        };
        let latitude = spread(offset(position.latitude, latitude_max));
        let longitude = spread(offset(position.longitude, LONGITUDE_MAX));
        Self {
            bits: latitude | longitude << 1,
            steps,
        }
    }

    pub(super) fn area(self) -> Area {
        let cells = (1_u64 << self.steps) as f64;
        let bounds = |index: u32, max: f64| {
            let bound = |index: u32| -max + f64::from(index) / cells * (max + max);
            [bound(index), bound(index.wrapping_add(1))]
        };
        Area {
            longitude: bounds(gather(self.bits >> 1), LONGITUDE_MAX),
            latitude: bounds(gather(self.bits), LATITUDE_MAX),
        }
    }

    /// The lowest score of a member in this cell.
    fn first_score(self) -> u64 {
        self.bits << (2 * (STEPS_MAX - self.steps))
    }

    /// Returns the range of scores of the members in this cell, without its end.
    pub(super) fn scores(self) -> (f64, f64) {
        let next = Self {
            bits: self.bits + 1,
            ..self
        };
        (self.first_score() as f64, next.first_score() as f64)
    }

    /// The cell that is `east` cells and `north` cells (-1, 0 or 1) from this one, around the world.
    pub(super) fn neighbour(self, east: i8, north: i8) -> Self {
        let mask = u64::MAX >> (64 - 2 * self.steps);
        let moved = |own: u64, by: i8| {
            let (value, others) = (self.bits & own, !own & mask);
            let moved = match by {
                0 => return value,
                1.. => value.wrapping_add(others + 1),
                _ => (value | others).wrapping_sub(others + 1),
            };
            moved & own & mask
        };
        Self {
            bits: moved(LONGITUDE_BITS, east) | moved(LATITUDE_BITS, north),
            ..self
        }
    }
}

/// Puts the bits of a number on the even places.
fn spread(value: u32) -> u64 {
    let mut bits = u64::from(value);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, LATITUDE_BITS),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// The number whose bits are on the even places.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & LATITUDE_BITS;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0xffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const PALERMO: Position = Position {
        longitude: 13.361389,
        latitude: 38.115556,
    };

    #[test]
    fn scores_and_texts_are_those_of_redis() {
        assert_eq!(PALERMO.to_score(), 3_479_099_956_230_698.0);
        let decoded = Position::of_score(PALERMO.to_score());
        assert_eq!(format!("{:.17}", decoded.longitude), "13.36138933897018433");
        assert_eq!(format!("{:.17}", decoded.latitude), "38.11555639549629859");
        assert_eq!(decoded.to_text(), "sqc8b49rny0");
    }

    #[test]
    fn numbers_are_spread_and_gathered_again() {
        for number in [0, 1, 2, 0xffff_ffff, 0x8000_0001, 0x1234_5678] {
            assert_eq!(gather(spread(number)), number, "{number:x}");
            assert_eq!(spread(number) & LONGITUDE_BITS, 0, "{number:x}");
        }
    }

    #[test]
    fn neighbours_touch_and_go_around_the_world() {
        let cell = Cell::at(PALERMO, 10);
        let (area, east) = (cell.area(), cell.neighbour(1, 0).area());
        assert_eq!(area.longitude[1], east.longitude[0]);
        assert_eq!(area.latitude, east.latitude);
        let south = cell.neighbour(0, -1).area();
        assert_eq!(area.latitude[0], south.latitude[1]);
        for (longitude, east) in [(180.0, 1), (-180.0, -1)] {
            let position = Position {
                longitude: longitude * 0.9999,
                latitude: 0.0,
            };
            let beyond = Cell::at(position, 4).neighbour(east, 0).area();
            assert!(beyond.longitude.contains(&-longitude), "{beyond:?}");
        }
        for (east, north) in [(1, 0), (0, 1), (1, 1), (-1, 1)] {
            assert_eq!(cell.neighbour(east, north).neighbour(-east, -north), cell);
        }
    }

    #[test]
    fn any_score_has_a_position() {
        for score in [-1.0, 0.5, 1e300, f64::INFINITY, f64::NEG_INFINITY, -1e300] {
            assert!(Position::of_score(score).is_valid(), "{score}");
        }
    }
}
