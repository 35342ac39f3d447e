//! Deployments of a master with replicas, and sentinels that watch it.

use super::{Deployment, DeploymentBuilder};
use crate::error::StartError;
use std::time::Duration;

/// `sentinel down-after-milliseconds`.
const DOWN_AFTER: Duration = Duration::from_secs(30);

impl DeploymentBuilder {
    /// Starts a master (`master`) with replicas (`replica-1` ...) and sentinels (`sentinel-1` ...)
    /// that watch it under the name `mymaster`. All of them serve ports, because clients connect to
    /// the addresses that sentinels report: use the system's clock or a manual one.
    ///
    /// # Errors
    /// A [`StartError`] if a port cannot be bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn sentinel(
        self,
        replicas: usize,
        sentinels: usize,
    ) -> Result<Deployment, StartError> {
        let down_after = self.down_after.unwrap_or(DOWN_AFTER);
        let mut names = vec!["master".to_owned()];
        names.extend((1..=replicas).map(|replica| format!("replica-{replica}")));
        names.extend((1..=sentinels).map(|sentinel| format!("sentinel-{sentinel}")));
        let deployment = self.start(names).await?;
        for server in deployment.nodes() {
            server.listen()?;
        }
        let watchers = replicas + 1..replicas + 1 + sentinels;
        for sentinel in watchers.clone() {
            deployment[sentinel]
                .handle
                .shared
                .node()
                .engine
                .become_sentinel();
        }
        for replica in 1..=replicas {
            deployment.network.follow(replica, Some(0));
        }
        let (sentinels, data) = (watchers.collect(), (0..=replicas).collect());
        deployment.network.watch(sentinels, data, down_after);
        deployment.settle();
        deployment.controlled()
    }

    /// Time for which a master must be down (crashed, paused or shut down) before sentinels fail
    /// over (`down-after-milliseconds`). 30 seconds unless set.
    #[must_use]
    pub fn down_after(mut self, down_after: Duration) -> Self {
        self.down_after = Some(down_after);
        self
    }
}

impl Deployment {
    /// [`DeploymentBuilder::sentinel`] with default settings.
    ///
    /// # Errors
    /// A [`StartError`] if a port cannot be bound.
    pub async fn sentinel(replicas: usize, sentinels: usize) -> Result<Self, StartError> {
        Self::builder().sentinel(replicas, sentinels).await
    }
}
