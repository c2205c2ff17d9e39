internal import CNetlink
internal import Glibc

/// Moves the calling thread, and with it all threads that it creates later, into a network namespace (setns(2)).
///
/// For a program that has no other thread yet; threads that exist already stay where they are.
///
/// - Parameter path: the namespace, such as `/run/netns/NAME`.
package func enterNetworkNamespace(_ path: String) throws(ReachabilityError) {
    let error = -cnl_enter_namespace(path)
    guard error != 0 else { return }
    let code: ReachabilityError.Code = error == EPERM || error == EACCES ? .permissionDenied : .namespaceUnavailable
    throw ReachabilityError(code, errno: error, operation: "setns(\(path))")
}
