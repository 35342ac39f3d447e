//! The pages of the book. `cargo test -p redouble-book` compiles and runs every code block of theirs;
//! `docs/build.sh` makes HTML of them.

#[cfg(doctest)]
macro_rules! pages {
    ($($name:ident $path:literal)*) => {
        $(
            #[doc = include_str!($path)]
            pub mod $name {}
        )*
    };
}

#[cfg(doctest)]
pages! {
    readme "../README.md"
    introduction "src/introduction.md"
    clocks "src/clocks.md"
    faults "src/faults.md"
    deployments "src/deployments.md"
    programs "src/programs.md"
    coming_from "src/coming-from.md"
    properties "src/suite/properties.md"
    scenario_faults "src/suite/faults.md"
    subject "src/suite/subject.md"
    report "src/suite/report.md"
    verdicts "src/verdicts.md"
    choosing "src/locks/choosing.md"
    guarantees "src/locks/guarantees.md"
    fencing "src/locks/fencing.md"
    services "src/locks/services.md"
    operations "src/locks/operations.md"
    benchmarks "src/benchmarks.md"
}
