//! The valid name nearest to an unknown one.

use strsim::levenshtein;

/// `; did you mean ...?` when a valid name is close enough, else the valid names, or nothing if
/// there are many.
pub(crate) fn did_you_mean(name: &str, valid: &[&str]) -> String {
    let lower = name.to_ascii_lowercase();
    let steps = |candidate: &str| levenshtein(&lower, &candidate.to_ascii_lowercase());
    let near = valid.iter().map(|&candidate| (steps(candidate), candidate)).min();
    match near {
        Some((steps, candidate)) if steps <= 1 + name.len() / 4 => format!("; did you mean `{candidate}`?"),
        _ if valid.len() <= 12 && !valid.is_empty() => format!("; valid are {}", valid.join(", ")),
        _ => String::new(),
    }
}
