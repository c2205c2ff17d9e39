internal import Glibc

/// The meaning of the errnos of lookups.
extension RouteVerdict {
    /// The kernel knows no way.
    package static let noRoute = RouteVerdict.refused(errno: ENETUNREACH)

    /// The reason that the kernel's refusal stands for; `nil` if it leaves open which layer is missing, or is no refusal.
    ///
    /// An `unreachable` route answers EHOSTUNREACH, `prohibit` EACCES, `blackhole` EINVAL (fib_props, net/ipv4/fib_semantics.c).
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

    /// If true, an interface vanished during the lookup: ask again.
    package var isRace: Bool {
        guard case .refused(let errno) = self else { return false }
        return errno == ENODEV || errno == ENETDOWN
    }

    /// If true, the verdict on a lookup with an IPv4 source may mean that no interface holds it any more: ENETUNREACH, EINVAL in
    /// older kernels (ip_route_output_key_hash_rcu, net/ipv4/route.c).
    package var mayLackSource: Bool {
        guard case .refused(let errno) = self else { return false }
        return errno == ENETUNREACH || errno == EINVAL
    }

    /// Returns whether packets of a socket that is bound to an interface would go this way.
    ///
    /// An IPv6 lookup with a source only prefers the interface; a socket's lookup insists on it (ip6_route_output_flags,
    /// net/ipv6/route.c).
    package func leaves(by interface: UInt32?) -> Bool {
        guard case .route(let route) = self else { return false }
        return interface == nil || route.isLocal || route.interface == interface
    }

    /// If true, the destination is an address of this machine.
    package var isLocal: Bool {
        if case .route(let route) = self { route.isLocal } else { false }
    }
}
