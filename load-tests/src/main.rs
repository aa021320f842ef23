//! The `receipts-load` command. Everything it does is in the library beside it.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    load_tests::command::main()
}
