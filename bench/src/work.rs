//! Work of the tools `compute` and `io`, taken from MiniMCP's benchmark and equal for all servers.

use std::time::Duration;

/// Delay of `io` before and after its computation.
pub const WAIT: Duration = Duration::from_millis(1);

/// Number of notifications that `progress` sends.
pub const NOTIFICATIONS: u32 = 100;

/// Counts the prime factors of a number, with repetition.
///
/// ```
/// assert_eq!(bench::work::prime_factors(12), 3);
/// ```
pub fn prime_factors(mut n: u64) -> u64 {
    let mut count = 0;
    let mut divisor = 2;
    while divisor * divisor <= n {
        while n.is_multiple_of(divisor) {
            n /= divisor;
            count += 1;
        }
        divisor += if divisor == 2 { 1 } else { 2 };
    }
    count + u64::from(n > 1)
}
