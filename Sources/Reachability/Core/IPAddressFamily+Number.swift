extension IPAddress.Family {
    /// The family of an AF_ number (linux/socket.h).
    init?(kernel family: UInt8) {
        switch family {
        case 2: self = .ipv4
        case 10: self = .ipv6
        default: return nil
        }
    }

    /// The AF_ number.
    var kernel: UInt8 { self == .ipv4 ? 2 : 10 }
}
