import Glibc
import Synchronization

/// A process that has no descriptor left.
enum Shortage {
    private static let taken = Mutex<[Int32]>([])

    /// Takes all descriptors that the process may have.
    static func begin() {
        taken.withLock { taken in
            var limit = rlimit(rlim_cur: 256, rlim_max: 256)
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            while true {
                let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
                guard descriptor >= 0 else { return }
                taken.append(descriptor)
            }
        }
    }

    /// Gives them back.
    static func end() {
        taken.withLock { taken in
            for descriptor in taken { close(descriptor) }
            taken = []
        }
    }
}
