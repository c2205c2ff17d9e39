/// Which job starts first when several may, as after a reconnect.
///
/// Jobs of the same priority start in the order in which they were submitted.
public enum JobPriority: Int, Hashable, Comparable, Sendable, CaseIterable {
    /// Nobody waits for it: a backup, a batch of thumbnails.
    case bulk
    /// The usual.
    case normal
    /// A person is looking.
    case interactive

    /// Whether the left one gives way.
    public static func < (left: JobPriority, right: JobPriority) -> Bool { left.rawValue < right.rawValue }
}
