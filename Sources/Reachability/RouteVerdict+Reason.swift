internal import Glibc

extension RouteVerdict {
    /// The reason that the kernel's refusal stands for; `nil` if it leaves open which layer is missing, or did not refuse.
    ///
    /// fib_props in net/ipv4/fib_semantics.c: an `unreachable` route answers EHOSTUNREACH, `prohibit` EACCES, `blackhole` EINVAL.
    /// Having no route, and a `throw` route, answer ENETUNREACH.
    package var refusalReason: OfflineReason? {
        guard case .refused(let errno) = self else { return nil }
        return switch errno {
        case EHOSTUNREACH: .unreachable
        case EACCES: .prohibited
        case EINVAL: .blackhole
        default: nil
        }
    }

    /// Whether the answer tells of an interface that was vanishing just then: ask once more.
    package var isRace: Bool {
        guard case .refused(let errno) = self else { return false }
        return errno == ENODEV || errno == ENETDOWN
    }
}
