//! Inversion of many numbers by one.

/// Inverts numbers other than zero (Montgomery's trick): three multiplications for each number, and
/// one inversion.
pub(super) fn invert_all<T: Copy>(
    numbers: &mut [T],
    one: T,
    multiply: impl Fn(&T, &T) -> T,
    invert: impl FnOnce(&T) -> T,
) {
    let mut product = one;
    let mut before = Vec::with_capacity(numbers.len());
    for number in numbers.iter() {
        before.push(product);
        product = multiply(&product, number);
    }
    let mut inverse = invert(&product);
    for (number, before) in numbers.iter_mut().zip(&before).rev() {
        let without = multiply(&inverse, number);
        *number = multiply(&inverse, before);
        inverse = without;
    }
}
