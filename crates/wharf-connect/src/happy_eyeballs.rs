//! Happy eyeballs (RFC 8305): tries the addresses of a host in parallel, each a little later than the last.
//!
//! At most [`MAX_ADDRESSES`] of a host are tried: a name with many addresses must not cost a socket for each.
//! The addresses of `localhost` are fixed, `127.0.0.1` first (`resolve.rs`).
//!
//! The system's resolver returns the addresses of both families at once, in the order of RFC 6724. The
//! resolution delay of RFC 8305 (section 3) therefore has no counterpart here.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{task::JoinSet, time::timeout};

/// Delay before the next address is tried in parallel (connection attempt delay).
const NEXT_ADDRESS_DELAY: Duration = Duration::from_millis(250);
/// Addresses of one host that are tried.
const MAX_ADDRESSES: usize = 8;

/// Connects to the first address that accepts. The other attempts are aborted.
pub(crate) async fn connect_first<T: Send + 'static, F>(
    addresses: &[SocketAddr],
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut attempts = JoinSet::new();
    let mut problem = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in interleave(addresses).into_iter().take(MAX_ADDRESSES) {
        attempts.spawn(connect(address));
        // A failure starts the next attempt at once.
        if let Ok(Some(Ok(ended))) = timeout(NEXT_ADDRESS_DELAY, attempts.join_next()).await {
            match ended {
                Ok(stream) => return Ok(stream),
                Err(error) => problem = error,
            }
        }
    }
    while let Some(Ok(ended)) = attempts.join_next().await {
        match ended {
            Ok(stream) => return Ok(stream),
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

/// Alternates the address families, beginning with that of the first address (RFC 8305, section 4).
fn interleave(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else { return Vec::new() };
    let (one, other): (Vec<SocketAddr>, Vec<SocketAddr>) =
        addresses.iter().partition(|it| it.is_ipv4() == first.is_ipv4());
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    let mut order = Vec::with_capacity(addresses.len());
    loop {
        let pair = [one.next(), other.next()];
        if pair == [None, None] {
            return order;
        }
        order.extend(pair.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::sync::{Arc, Mutex};

    use tokio::time::Instant;

    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|it| SocketAddr::new(it.parse().unwrap(), 1)).collect()
    }

    /// Behaviour of an address: it does not respond, refuses at once, or accepts after some milliseconds.
    #[derive(Clone, Copy)]
    enum Peer {
        Dead,
        Refuses,
        Accepts(u64),
    }

    /// Connects to the peers in their order; returns the index of the one that accepted, the attempts by time in
    /// milliseconds, and the time at the end.
    async fn race(peers: &[Peer]) -> (io::Result<usize>, Vec<(usize, u128)>, u128) {
        let began = Instant::now();
        let texts: Vec<String> = (0..peers.len()).map(|it| format!("10.0.0.{it}")).collect();
        let list = addresses(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let connect = |address: SocketAddr| {
            let at = list.iter().position(|it| *it == address).unwrap();
            attempts.lock().unwrap().push((at, began.elapsed().as_millis()));
            let peer = peers[at];
            async move {
                match peer {
                    Peer::Dead => std::future::pending().await,
                    Peer::Refuses => Err(io::ErrorKind::ConnectionRefused.into()),
                    Peer::Accepts(after) => {
                        tokio::time::sleep(Duration::from_millis(after)).await;
                        Ok(at)
                    }
                }
            }
        };
        let first = connect_first(&list, connect).await;
        let attempts = attempts.lock().unwrap().clone();
        (first, attempts, began.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_first_address_costs_one_delay() {
        let (first, attempts, time) = race(&[Peer::Dead, Peer::Accepts(10)]).await;
        assert_eq!((first.unwrap(), attempts, time), (1, vec![(0, 0), (1, 250)], 260));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_starts_the_next_attempt_at_once() {
        let peers = [Peer::Refuses, Peer::Refuses, Peer::Accepts(0)];
        let (first, _, time) = race(&peers).await;
        assert_eq!((first.unwrap(), time), (2, 0));
        // Also the refusal of a later address, while an earlier one is still dead.
        let (first, _, time) = race(&[Peer::Dead, Peer::Refuses, Peer::Accepts(0)]).await;
        assert_eq!((first.unwrap(), time), (2, 250));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_first_address_wins_if_the_others_are_slower() {
        let (first, attempts, time) = race(&[Peer::Accepts(300), Peer::Accepts(300)]).await;
        assert_eq!((first.unwrap(), attempts.len(), time), (0, 2, 300));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_addresses_is_bounded() {
        let (first, attempts, _) = race(&[Peer::Refuses; 20]).await;
        assert!(first.is_err());
        assert_eq!(attempts.len(), MAX_ADDRESSES);
        assert!(connect_first::<(), _>(&[], async |_| Ok(())).await.is_err());
    }

    #[test]
    fn families_alternate() {
        let list = addresses(&["::1", "::2", "::3", "10.0.0.1", "10.0.0.2"]);
        let expected = addresses(&["::1", "10.0.0.1", "::2", "10.0.0.2", "::3"]);
        assert_eq!(interleave(&list), expected);
        let expected = addresses(&["10.0.0.1", "::1"]);
        assert_eq!(interleave(&addresses(&["10.0.0.1", "::1"])), expected);
    }
}
