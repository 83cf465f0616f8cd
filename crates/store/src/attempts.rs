//! Waits between the attempts of a policy of [`dipper_base::retry`].

use std::time::Duration;

use dipper_base::retry::Attempts;
use rand::Rng;

/// Waits for the next attempt after one that failed and `took` this long. Returns false, without a wait, if the attempt
/// was the last one.
pub async fn again(attempts: &mut Attempts, took: Duration) -> bool {
    let draw = rand::rng().random();
    let Some(wait) = attempts.next(took, draw) else { return false };
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    true
}
