//! What the tools `compute` and `io` do, after the benchmark of MiniMCP: the same for every server.

use std::time::Duration;

/// How long `io` sleeps before and after it computes.
pub const WAIT: Duration = Duration::from_millis(1);

/// How many notifications `progress` sends.
pub const NOTIFICATIONS: u32 = 100;

/// How many prime factors a number has, counted with repetition.
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
