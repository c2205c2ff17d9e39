/// An argument that cannot be understood, and how to write it.
struct InvalidArgument: Error, Hashable, CustomStringConvertible {
    /// What is wrong, and what would be right.
    let description: String

    init(_ description: String) { self.description = description }
}
