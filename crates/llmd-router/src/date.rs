//! Points of time as people read them. Used by `admin` for status, and by `tls` for what it says of
//! certificates; it reads no clock.

/// Milliseconds since 1970 as UTC text (days by Howard Hinnant's civil calendar).
pub(crate) fn rfc3339(unix_ms: u64) -> String {
    let (days, of_day) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, year) } else { (month - 9, year + 1) };
    let seconds = of_day / 1_000;
    format!(
        "{:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        year + era * 400,
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        of_day % 1_000
    )
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn times_are_utc_text() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_826_559_001), "2000-02-29T12:15:59.001Z");
        assert_eq!(rfc3339(1_796_083_199_999), "2026-11-30T23:59:59.999Z");
    }
}
