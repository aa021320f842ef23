//! Hash trees, hashed as RFC 9162 (2.1) does: a signature over the root is one over every leaf.

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Root of a hash tree, or another of its nodes.
pub type TreeHash = [u8; 32];

/// Hash that is paired with a node on the way from a leaf to the root, in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sibling {
    /// Hash on the left of the node.
    Left(String),
    /// Hash on the right of the node.
    Right(String),
}

/// Returns the root of the tree over `leaves`, and the path from each of them to the root.
#[must_use]
pub fn hash_tree<'a>(leaves: impl Iterator<Item = &'a [u8]>) -> (TreeHash, Vec<Vec<Sibling>>) {
    let mut level: Vec<TreeHash> = leaves.map(leaf_hash).collect();
    let mut paths = vec![Vec::new(); level.len()];
    let mut height = 0;
    while level.len() > 1 {
        let texts: Vec<String> = level.iter().map(|hash| STANDARD.encode(hash)).collect();
        for (leaf, path) in paths.iter_mut().enumerate() {
            let node = leaf >> height;
            let side = if node % 2 == 0 { Sibling::Right } else { Sibling::Left };
            // The last node of a level may have none. It is a node of the next level, too.
            path.extend(texts.get(node ^ 1).cloned().map(side));
        }
        let pairs = level.chunks(2).filter_map(|pair| match pair {
            [left, right] => Some(node_hash(left, right)),
            alone => alone.first().copied(),
        });
        level = pairs.collect();
        height += 1;
    }
    (level.first().copied().unwrap_or_default(), paths)
}

/// Returns the root that `path` leads to from `leaf`; `None` if the path has something else than
/// hashes.
#[must_use]
pub fn tree_root(leaf: &[u8], path: &[Sibling]) -> Option<TreeHash> {
    let hash = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
    path.iter().try_fold(leaf_hash(leaf), |node, sibling| {
        Some(match sibling {
            Sibling::Left(text) => node_hash(&hash(text)?, &node),
            Sibling::Right(text) => node_hash(&node, &hash(text)?),
        })
    })
}

fn leaf_hash(leaf: &[u8]) -> TreeHash {
    hash_of(&[&[0], leaf])
}

fn node_hash(left: &TreeHash, right: &TreeHash) -> TreeHash {
    hash_of(&[&[1], left, right])
}

fn hash_of(parts: &[&[u8]]) -> TreeHash {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Leaves and roots of the tests of Certificate Transparency (RFC 6962), which hashes as
    /// RFC 9162.
    const LEAVES: [&str; 8] = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ];
    const ROOTS: [&str; 8] = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];

    #[test]
    fn roots_are_those_of_certificate_transparency_and_every_path_leads_there() {
        let leaves = LEAVES.map(|leaf| hex::decode(leaf).unwrap());
        for (last, wanted) in ROOTS.into_iter().enumerate() {
            let leaves = &leaves[..=last];
            let (root, paths) = hash_tree(leaves.iter().map(Vec::as_slice));
            assert_eq!(hex::encode(root), wanted);
            for (leaf, path) in leaves.iter().zip(&paths) {
                assert_eq!(tree_root(leaf, path), Some(root));
                assert_ne!(tree_root(b"another", path), Some(root));
            }
        }
    }

    #[test]
    fn a_path_has_hashes_only() {
        for text in ["", "AA==", "?", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="] {
            assert_eq!(tree_root(b"", &[Sibling::Left(text.to_owned())]), None, "{text}");
        }
    }
}
