/// A photo that is to be on the server.
public struct Photo: Hashable, Sendable {
    /// What it is called, here and there.
    public var name: String
    /// Its size in bytes.
    public var size: Int

    /// Makes a photo.
    public init(_ name: String, size: Int = 0) { (self.name, self.size) = (name, size) }
}
