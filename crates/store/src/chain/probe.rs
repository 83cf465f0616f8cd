//! Does this store keep its word that one of several creators wins?

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode};
use rand::Rng;

use super::ChainError;

const RACERS: usize = 32;

/// Lets 32 creators race for one object below `prefix` and takes it away again. To be run before the first write to a
/// bucket: on a store that ignores `If-None-Match`, two writers would take the same version for theirs.
///
/// # Errors
/// [`ChainError::NoPutIfAbsent`], or the store's own error.
pub async fn probe_put_if_absent(store: &Arc<dyn ObjectStore>, prefix: &Path) -> Result<(), ChainError> {
    let path = prefix.clone().join("probe").join(format!("{:032x}", rand::rng().random::<u128>()));
    let failed = |source| ChainError::Store { path: path.to_string(), source };
    let mut racers: FuturesUnordered<_> = (0..RACERS)
        .map(|i| {
            let (store, path) = (Arc::clone(store), path.clone());
            async move { (i, store.put_opts(&path, i.to_string().into(), PutMode::Create.into()).await) }
        })
        .collect();
    let (mut winners, mut error) = (Vec::new(), None);
    while let Some((i, put)) = racers.next().await {
        match put {
            Ok(_) => winners.push(i),
            Err(Error::AlreadyExists { .. }) => {}
            Err(e) => error = Some(e),
        }
    }
    let content = match store.get(&path).await {
        Ok(got) => Some(got.bytes().await.map_err(failed)?),
        Err(Error::NotFound { .. }) => None,
        Err(e) => return Err(failed(e)),
    };
    if content.is_some() {
        store.delete(&path).await.map_err(failed)?;
    }
    if let Some(e) = error {
        return Err(failed(e));
    }
    let right = matches!(&winners[..], [one] if content.as_deref() == Some(one.to_string().as_bytes()));
    if right {
        Ok(())
    } else {
        Err(ChainError::NoPutIfAbsent { path: path.to_string(), winners: winners.len(), racers: RACERS })
    }
}
