//! The known name nearest to an unknown one.

/// `; did you mean ...?` when a known name is close enough, else the known names, or nothing if
/// there are many.
pub(super) fn did_you_mean(name: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|&candidate| (distance(name, candidate), candidate))
        .min();
    match near {
        Some((steps, candidate)) if steps <= 1 + name.len() / 4 => format!("; did you mean `{candidate}`?"),
        _ if known.len() <= 12 && !known.is_empty() => format!("; known are {}", known.join(", ")),
        _ => String::new(),
    }
}

/// Levenshtein's distance in bytes, case aside.
fn distance(left: &str, right: &str) -> usize {
    let right = right.as_bytes();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let change = diagonal + usize::from(!a.eq_ignore_ascii_case(b));
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}
