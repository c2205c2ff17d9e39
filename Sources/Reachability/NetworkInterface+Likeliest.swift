extension Sequence<NetworkInterface> {
    /// Of several the one that a person is likely to mean: with addresses, and made of hardware.
    package var likeliest: NetworkInterface? {
        first { !$0.addresses.isEmpty && $0.kind.isHardware } ?? first { !$0.addresses.isEmpty } ?? first(where: \.kind.isHardware)
            ?? first { _ in true }
    }
}

extension NetworkInterface.Kind {
    /// Whether there is a device to touch; hardware that is not known more closely is `other`.
    fileprivate var isHardware: Bool { self != .tunnel && self != .virtual && self != .loopback }
}
