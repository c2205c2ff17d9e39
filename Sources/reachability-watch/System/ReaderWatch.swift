import Glibc

/// Notices that the reader of standard output has gone although there is nothing to write, as in `reachability-watch | head -1`.
enum ReaderWatch {
    /// Ends the process quietly when standard output is a pipe or socket that nobody reads any more.
    static func start() {
        guard DescriptorOutput.standard.hasReader else { return }
        var thread = pthread_t()
        let error = pthread_create(&thread, nil, { _ in ReaderWatch.watch() }, nil)
        // Without it the next line's EPIPE ends the process: later, and just as quietly.
        if error == 0 { pthread_detach(thread) }
    }

    private static func watch() -> UnsafeMutableRawPointer? {
        // No events are asked for: POLLERR and POLLHUP come unasked, and a pipe without readers has POLLERR (poll(2)).
        var request = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
        while true {
            let count = poll(&request, 1, -1)
            if count == 1 { _exit(ExitStatus.yes.rawValue) }
            if count == -1, errno != EINTR { return nil }
        }
    }
}
