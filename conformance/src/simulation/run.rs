//! One run: builds the simulation of a scenario, plays it, and returns its history.

use super::{
    clock::WallClock,
    held,
    outcome::{Run, RunError},
    recorder::Recorder,
    scheduler::{Ran, Scheduler, Spawner, Step, TaskOwner},
    true_time::TrueTime,
    world::{LONGEST_POLL, World},
};
use crate::{
    backend::Backend,
    history::{History, Terms},
    scenario::Scenario,
    subject::DynSubject,
    vocabulary::{LINGER, POLLS_PER_LEASE, Promises},
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Plays a scenario with a subject on a backend.
///
/// # Errors
/// If the backend cannot be reached, or lacks a capability that the scenario needs.
pub fn run(
    subject: Arc<dyn DynSubject>,
    backend: &dyn Backend,
    scenario: &Scenario,
) -> Result<Run, RunError> {
    if let Some(lacking) = scenario
        .needs()
        .into_iter()
        .find(|&need| !backend.can(need) || !subject.can(need))
    {
        return Err(RunError::Unsupported(lacking));
    }
    let virtual_time = backend.virtual_time();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    if !virtual_time {
        builder.enable_all(); // virtual time does not use tokio's clock
    }
    let runtime = builder.build()?;
    let (world, mut scheduler) = runtime.block_on(async {
        let mut time = TrueTime::start(virtual_time);
        let mut epoch = wall_clock(virtual_time);
        let opened = backend
            .open(scenario, Arc::new(time.clone()), epoch)
            .await?;
        if !virtual_time {
            // Starting servers takes time.
            (time, epoch) = (TrueTime::start(false), wall_clock(false));
        }
        let promises = subject.promises();
        let history = History {
            kind: promises.kind,
            reentrant: promises.reentrant,
            topology: scenario.topology,
            timeout: Some(scenario.request_timeout()),
            terms: terms(promises, scenario),
            ..History::new(
                promises.longest_lease(scenario.lease()),
                opened.servers.observes(),
            )
        };
        let spawner = Spawner::new();
        for (node, driver) in (0..).zip(opened.drivers) {
            spawner.spawn(TaskOwner::Server(node), driver);
        }
        let recorder = Recorder::new(time.clone(), history);
        let world = World::new(
            subject,
            scenario,
            epoch,
            opened.servers,
            recorder,
            spawner.clone(),
        );
        let world = Arc::new(world);
        let director = Arc::clone(&world).direct();
        spawner.spawn(TaskOwner::Director, Box::pin(director));
        if !virtual_time {
            spawner.spawn(
                TaskOwner::Director,
                Box::pin(Arc::clone(&world).heartbeat()),
            );
        }
        let scheduler = Scheduler::new(spawner, scenario.seed, scenario.schedule, time);
        Ok::<_, RunError>((world, scheduler))
    })?;
    let on_step = |step: Step<'_>| world.on_step(&step);
    let ran = if virtual_time {
        let _context = runtime.enter(); // processes may have runtimes of their own
        scheduler.run_alone(on_step)
    } else {
        runtime.block_on(scheduler.run(on_step))
    };
    runtime.block_on(async {
        scheduler.end();
        let stray_tasks = tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks();
        world.network.servers.clean_up().await;
        if let Some(failure) = world.network.servers.failure() {
            return Err(RunError::OutOfReach(failure));
        }
        let mut history = std::mem::take(&mut *world.recorder.history());
        let gap = (*held(&world.gap)).max(world.network.servers.gap());
        history.terms.slack = gap;
        let Ran {
            steps,
            last_draw,
            endless,
        } = ran;
        Ok(Run {
            history,
            steps,
            last_draw,
            endless,
            stray_tasks,
            open_error: held(&world.open_error).take(),
            beside: std::mem::take(&mut *held(&world.beside)),
            gap,
        })
    })
}

/// Returns the time since 1970 that wall clocks show at the start of a run. In real time it is the machine's: processes and
/// threads read their wall clocks from the machine.
fn wall_clock(virtual_time: bool) -> Duration {
    if virtual_time {
        return WallClock::ORIGIN;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Returns the promises of the lock, and the delays of the scenario without faults.
fn terms(promises: Promises, scenario: &Scenario) -> Terms {
    let part = |share: u32| scenario.lease() / share.max(1);
    let wake = promises.wake_share.map(part);
    let by_itself = || {
        promises
            .waits
            .then(|| part(POLLS_PER_LEASE).max(LONGEST_POLL))
    };
    let lease = scenario.lease();
    let poll = promises.longest_poll(lease).or_else(by_itself);
    let skip = promises.skip_timeouts.map_or(Duration::ZERO, |timeouts| {
        let pause = wake.or(poll).unwrap_or_default();
        pause + scenario.request_timeout() * timeouts
    });
    Terms {
        latency: Duration::from_millis(scenario.latency_ms),
        slack: Duration::ZERO,
        waits: promises.waits,
        lease_spread: promises.longest_lease(scenario.lease())
            - promises.shortest_lease(scenario.lease()),
        wake,
        poll,
        drift_ppm: promises.drift_ppm,
        retry: promises.longest_retry(lease),
        skip,
        answers: promises.answers,
        tells: promises.tells,
        linger: if promises.lingers {
            LINGER
        } else {
            Duration::ZERO
        },
        stays_subscribed: promises.stays_subscribed,
        kept_tasks: promises.kept_tasks,
        releases_silently: promises.releases_silently,
        refuses_early: promises.refuses_early,
        hold: promises.hold_share.map_or(Duration::ZERO, part),
        fair: promises.fair,
        prefers_writers: promises.prefers_writers,
        renews: promises.renews,
        signals: promises.signals,
        notices: promises.notices,
        set_up: promises.set_up,
        tidy: promises.tidy,
        anew: promises.anew,
    }
}
