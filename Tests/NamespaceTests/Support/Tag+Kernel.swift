import Testing

extension Tag {
    /// Needs the real kernel.
    @Tag static var kernel: Self
}
