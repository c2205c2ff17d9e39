/// A network interface as the kernel describes it: a link with its addresses.
public struct NetworkInterface: Hashable, Sendable {
    /// The sort of device.
    ///
    /// More may be added.
    public struct Kind: RawRepresentable, Hashable, Sendable {
        /// The kind's stable name, as in JSON.
        public var rawValue: String
        /// Makes a kind from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// Ethernet and other cabled hardware.
        public static let wired = Kind(rawValue: "wired")
        /// Wi-Fi.
        public static let wireless = Kind(rawValue: "wireless")
        /// Mobile broadband.
        public static let cellular = Kind(rawValue: "cellular")
        /// A tunnel or VPN: tun, WireGuard, GRE, PPP and the like.
        public static let tunnel = Kind(rawValue: "tunnel")
        /// A bridge, bond, VLAN, veth, macvlan: made of software on top of something else.
        public static let virtual = Kind(rawValue: "virtual")
        /// The loopback device.
        public static let loopback = Kind(rawValue: "loopback")
        /// Anything else.
        ///
        /// Also Ethernet or Wi-Fi hardware that /sys does not show, such as that of another network namespace.
        public static let other = Kind(rawValue: "other")
    }

    /// The operational state of RFC 2863, as linux/if.h numbers it (IF_OPER_*).
    public enum OperationalState: UInt8, Hashable, Sendable {
        /// The driver does not say: normal for tunnels.
        case unknown = 0
        case notPresent = 1
        case down = 2
        /// The device below is down.
        case lowerLayerDown = 3
        case testing = 4
        /// Waiting for something outside, such as 802.1X authentication.
        case dormant = 5
        case up = 6
    }

    /// An address held by an interface.
    public struct Address: Hashable, Sendable {
        /// The address.
        public var address: IPAddress
        /// The length of the on-link prefix.
        public var prefixLength: Int
        /// Duplicate address detection has not finished (IFA_F_TENTATIVE, RFC 4862 §5.4): not usable yet.
        public var isTentative: Bool
        /// Usable although tentative (IFA_F_OPTIMISTIC, RFC 4429).
        public var isOptimistic: Bool
        /// Duplicate address detection found another holder (IFA_F_DADFAILED): never usable.
        public var hasFailedDetection: Bool

        /// Makes an address.
        public init(
            _ address: IPAddress, prefixLength: Int, isTentative: Bool = false, isOptimistic: Bool = false,
            hasFailedDetection: Bool = false
        ) {
            self.address = address
            self.prefixLength = prefixLength
            self.isTentative = isTentative
            self.isOptimistic = isOptimistic
            self.hasFailedDetection = hasFailedDetection
        }

        /// True if packets may be sent from this address: duplicate address detection is not pending and did not fail.
        public var isReady: Bool { !hasFailedDetection && (!isTentative || isOptimistic) }
    }

    /// A reference to an interface: its index and name.
    public struct Identity: Hashable, Sendable {
        /// The kernel's number, unique within a network namespace; it survives a rename.
        public var index: UInt32
        /// The name, encoded as ``NetworkInterface/name`` says.
        public var name: String

        /// Makes a reference to an interface.
        public init(index: UInt32, name: String) {
            self.index = index
            self.name = name
        }
    }

    /// The part of the machine below an interface that its packets need.
    package enum Underlay: Hashable, Sendable {
        /// Nothing that the kernel tells, or another namespace: its own state says all.
        case none
        /// The device with this index (IFLA_LINK), such as the parent of a VLAN.
        case device(UInt32)
        /// A way to the far end of a tunnel.
        indirect case remote(Remote)
        /// Some way out that is no such tunnel: only the tunnel's program knows the far end.
        case ground
    }

    /// The far end of a tunnel, and the outer packets to it.
    package struct Remote: Hashable, Sendable {
        package var address: IPAddress
        package var source: IPAddress?
        package var interface: UInt32?
        package var mark: UInt32?
        package var typeOfService: UInt8
        package var transport: Scope.Transport

        package init(
            address: IPAddress, source: IPAddress? = nil, interface: UInt32? = nil, mark: UInt32? = nil,
            typeOfService: UInt8 = 0, transport: Scope.Transport
        ) {
            (self.address, self.source, self.interface, self.mark) = (address, source, interface, mark)
            (self.typeOfService, self.transport) = (typeOfService, transport)
        }
    }

    /// The kernel's number, unique within a network namespace; it survives a rename.
    public var index: UInt32
    /// The name.
    ///
    /// The kernel allows any byte but `/`, `:`, NUL and white space (net/core/dev.c, dev_valid_name). Bytes that are not UTF-8,
    /// and the backslash, are written `\xNN`, so that different names stay different. Escape it before it reaches a terminal.
    public var name: String
    /// Further names of the same interface (`altname`, ip-link(8)), each of at most 127 bytes, encoded as ``name`` says.
    public var alternativeNames: [String] = []
    /// The sort of device.
    public var kind: Kind
    /// True if the administrator set it up (IFF_UP, netdevice(7)).
    public var isUp: Bool
    /// True if it has carrier: a cable, an association (IFF_LOWER_UP, netdevice(7)).
    public var hasCarrier: Bool
    /// True if the interface has one other end (IFF_POINTOPOINT, netdevice(7)): packets need no address to get there.
    public var isPointToPoint: Bool
    /// The operational state.
    public var operationalState: OperationalState
    /// The number of changes of the carrier since the device exists (IFLA_CARRIER_CHANGES).
    public var carrierChanges: UInt32
    /// The addresses, in the kernel's order.
    public var addresses: [Address]
    /// The kernel's name for the kind of link (IFLA_INFO_KIND), such as `bridge`; empty for hardware.
    package var linkKind = ""
    /// The index of the bridge, bond or VRF that it is a port of (IFLA_MASTER).
    package var master: UInt32?
    /// The part of the machine that its packets need below it.
    package var underlay = Underlay.none

    /// Makes an interface, by default one that is up, has carrier and no addresses.
    public init(
        index: UInt32, name: String, kind: Kind = .wired, isUp: Bool = true, hasCarrier: Bool = true,
        isPointToPoint: Bool = false, operationalState: OperationalState = .up, carrierChanges: UInt32 = 0,
        addresses: [Address] = []
    ) {
        self.index = index
        self.name = name
        self.kind = kind
        self.isUp = isUp
        self.hasCarrier = hasCarrier
        self.isPointToPoint = isPointToPoint
        self.operationalState = operationalState
        self.carrierChanges = carrierChanges
        self.addresses = addresses
    }

    /// True for the loopback device.
    public var isLoopback: Bool { kind == .loopback }

    /// True if packets can leave through it: up, with carrier, and not dormant, under test or gone.
    ///
    /// `down` and `lowerLayerDown` beside a carrier are old: the kernel updates the operational state up to 1 s after the carrier
    /// (linkwatch_nextevent, net/core/link_watch.c; docs/networking/operstates.rst).
    public var isUsable: Bool {
        guard isUp && hasCarrier else { return false }
        return switch operationalState {
        case .dormant, .testing, .notPresent: false
        case .unknown, .down, .lowerLayerDown, .up: true
        }
    }

    /// The index and name.
    public var identity: Identity { Identity(index: index, name: name) }
}

extension Sequence<NetworkInterface> {
    /// The interface that a person most likely means: with addresses, and made of hardware.
    package var likeliest: NetworkInterface? {
        first { !$0.addresses.isEmpty && $0.kind.isHardware } ?? first { !$0.addresses.isEmpty } ?? first(where: \.kind.isHardware)
            ?? first { _ in true }
    }
}

extension NetworkInterface.Kind {
    /// True for hardware; unknown hardware is `other`.
    package var isHardware: Bool { self != .tunnel && self != .virtual && self != .loopback }
}
