import Glibc

/// Locks of whole files (flock(2)), which belong to an open file and not to a process.
package enum FileLock {
    /// Ends the lock of a file and closes it.
    ///
    /// A child that has not executed its program yet still has the file, and would keep a lock that only the last close ends.
    package static func close(_ descriptor: Int32) {
        flock(descriptor, LOCK_UN)
        Glibc.close(descriptor)
    }
}
