/// Defines a function that uses AVX2 if the processor has it.
///
/// The body is compiled a second time for AVX2, together with every function that it calls and that is marked
/// `#[inline(always)]`. The results are bit-identical, because vector instructions compute each lane like the scalar
/// ones, and no multiply and add are fused.
#[macro_export]
macro_rules! wide {
    ($(#[$about:meta])* $sight:vis fn $name:ident($($given:ident: $of:ty),* $(,)?)
        $(-> $out:ty)? $body:block) => {
        $(#[$about])*
        $sight fn $name($($given: $of),*) $(-> $out)? {
            #[inline(always)]
            fn work($($given: $of),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2($($given: $of),*) $(-> $out)? {
                work($($given),*)
            }
            #[cfg(target_arch = "x86_64")]
            if ::std::arch::is_x86_feature_detected!("avx2") {
                #[expect(unsafe_code, reason = "the processor has the instructions, as just asked")]
                return unsafe { avx2($($given),*) };
            }
            work($($given),*)
        }
    };
}

#[cfg(test)]
mod tests {
    #[inline(always)]
    fn plain(x: &[f64]) -> Vec<f64> {
        let one = |x: &f64| crate::exp(-x.abs().sqrt()) * x + 0.1;
        let mut v: Vec<f64> = x.iter().map(one).collect();
        v.push(crate::dot(x, x));
        v
    }

    wide! {
        fn in_wide_registers(x: &[f64]) -> Vec<f64> {
            plain(x)
        }
    }

    #[test]
    fn the_numbers_do_not_depend_on_the_width() {
        let x: Vec<f64> = (0..1000).map(|k| f64::from(k) * 0.013 - 7.0).collect();
        assert_eq!(in_wide_registers(&x), plain(&x));
    }
}
