import Glibc
import TestSupport

/// The changes of the files in a folder (inotify(7)), from the creation of this object on.
final class FolderChanges {
    /// The time limit of each wait, in milliseconds.
    private static let limit: Int32 = 60_000

    private let descriptor: Int32

    init(_ folder: String) throws {
        descriptor = inotify_init1(O_CLOEXEC)
        guard descriptor >= 0 else { throw SystemFailure("inotify_init1") }
        guard inotify_add_watch(descriptor, folder, UInt32(IN_CREATE | IN_MODIFY)) >= 0 else {
            throw SystemFailure("inotify_add_watch(\(folder))")
        }
    }

    deinit { close(descriptor) }

    /// Waits for the next change and takes all changes until now.
    func next() throws {
        var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        var count = poll(&request, 1, Self.limit)
        while count < 0, errno == EINTR { count = poll(&request, 1, Self.limit) }
        guard count == 1 else { throw SystemFailure("poll(inotify)", errno: count == 0 ? ETIMEDOUT : errno) }
        var buffer = [UInt8](repeating: 0, count: 4096)
        guard read(descriptor, &buffer, buffer.count) > 0 else { throw SystemFailure("read(inotify)") }
    }
}
