//! A run leaves nothing behind: whoever plays thousands of them has to afford it.

use redouble_conformance::{
    backend::Double,
    scenario::generate::Generator,
    simulation,
    subject::{SUBJECTS, Suspect},
};
use std::sync::Arc;

/// Tasks that start others when they are dropped once kept their world, and that kept them.
#[test]
fn the_world_of_a_run_ends_with_it() {
    for row in SUBJECTS {
        let subject: Arc<dyn Suspect> = Arc::from((row.make)());
        let generator = Generator::of(subject.promises(), None);
        for seed in 0..40 {
            let scenario = generator.scenario(seed);
            simulation::run(Arc::clone(&subject), &Double, &scenario).expect("the double is there");
            let owners = Arc::strong_count(&subject);
            assert_eq!(owners, 1, "{}, seed {seed}", subject.name());
        }
    }
}
