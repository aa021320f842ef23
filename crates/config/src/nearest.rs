//! The known name nearest to an unknown one.

use strsim::levenshtein;

/// `; did you mean ...?` when a known name is close enough, else the known names, or nothing if
/// there are many.
pub(crate) fn did_you_mean(name: &str, known: &[&str]) -> String {
    let lower = name.to_ascii_lowercase();
    let steps = |candidate: &str| levenshtein(&lower, &candidate.to_ascii_lowercase());
    let near = known.iter().map(|&candidate| (steps(candidate), candidate)).min();
    match near {
        Some((steps, candidate)) if steps <= 1 + name.len() / 4 => format!("; did you mean `{candidate}`?"),
        _ if known.len() <= 12 && !known.is_empty() => format!("; known are {}", known.join(", ")),
        _ => String::new(),
    }
}
