import Glibc

/// The symbol of an error number that a look-up or a request may end with (errno(3)), or its number in words.
func errorName(_ number: Int32) -> String {
    switch number {
    case ENETUNREACH: "ENETUNREACH"
    case EHOSTUNREACH: "EHOSTUNREACH"
    case EACCES: "EACCES"
    case EINVAL: "EINVAL"
    case ENODEV: "ENODEV"
    case ENETDOWN: "ENETDOWN"
    case EPERM: "EPERM"
    case EAFNOSUPPORT: "EAFNOSUPPORT"
    default: "errno \(number)"
    }
}

/// What the C library says about an error number.
func errorText(_ number: Int32) -> String { String(cString: strerror(number)) }
