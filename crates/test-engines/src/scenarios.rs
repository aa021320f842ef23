//! Tests that share a world which is expensive to start: an engine, of which a process has one,
//! with the services over it.
//!
//! A test binary with `harness = false` calls [`run`]. Each scenario is a test of its own, which
//! `cargo test --test NAME SCENARIO` selects. None runs beside another.

use std::process::ExitCode;
use std::sync::Arc;

pub use futures_util::future::BoxFuture;
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::{Builder, Runtime};

/// A scenario: its name, and what it does in the world.
pub type Scenario<W> = (&'static str, fn(&W) -> BoxFuture<'_, ()>);

/// Makes scenarios of async functions `module::function` that take a reference to the world, whose
/// type comes first.
#[macro_export]
macro_rules! scenarios {
    ($world:ty; $($module:ident::$scenario:ident,)*) => {
        vec![$({
            fn scenario(world: &$world) -> $crate::scenarios::BoxFuture<'_, ()> {
                Box::pin($module::$scenario(world))
            }
            let name = concat!(stringify!($module), "::", stringify!($scenario));
            (name, scenario as fn(&$world) -> $crate::scenarios::BoxFuture<'_, ()>)
        },)*]
    };
}

/// Runs the scenarios that the command line selects, in a world that is started before and stopped
/// afterwards.
#[allow(clippy::expect_used)]
pub fn run<W: Send + Sync + 'static, S: Future<Output = W>, E: Future<Output = ()>>(
    start: impl FnOnce() -> S,
    scenarios: Vec<Scenario<W>>,
    stop: impl FnOnce(W) -> E,
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    if arguments.list {
        let trials = scenarios.iter().map(|(name, _)| Trial::test(*name, || Ok(())));
        return libtest_mimic::run(&arguments, trials.collect()).exit_code();
    }
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = Arc::new(runtime.expect("a runtime"));
    let world = Arc::new(runtime.block_on(start()));
    let trial = |(name, scenario): Scenario<W>| {
        let (runtime, world): (Arc<Runtime>, Arc<W>) = (Arc::clone(&runtime), Arc::clone(&world));
        Trial::test(name, move || {
            runtime.block_on(scenario(&world));
            Ok(())
        })
    };
    let conclusion = libtest_mimic::run(&arguments, scenarios.into_iter().map(trial).collect());
    let world = Arc::into_inner(world).expect("every scenario has ended");
    runtime.block_on(stop(world));
    conclusion.exit_code()
}
