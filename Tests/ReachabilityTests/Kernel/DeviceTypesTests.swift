import Glibc
import TestSupport
import Testing

@testable import Reachability

/// A folder like /sys/class/net.
extension TemporaryFolder {
    fileprivate func add(_ name: String, address: String = "02:00:00:00:00:ff\n", event: String) throws {
        try write(address, to: "\(name)/address")
        try replace(name, event: event)
    }

    fileprivate func replace(_ name: String, event: String) throws { try write(event, to: "\(name)/uevent") }
}

struct DeviceTypesTests {
    private let address: [UInt8] = [2, 0, 0, 0, 0, 0xFF]

    private func device(_ name: String, index: UInt32 = 3) -> DeviceTypes.Device {
        DeviceTypes.Device(index: index, name: Array(name.utf8), hardwareAddress: address)
    }

    @Test(arguments: [
        ("DEVTYPE=wlan\nINTERFACE=net0\nIFINDEX=3\n", "wireless"), ("DEVTYPE=wwan\nINTERFACE=net0\nIFINDEX=3\n", "cellular"),
        ("INTERFACE=net0\nIFINDEX=3\n", "wired"), ("INTERFACE=net0\nIFINDEX=3", "wired"),
        ("DEVTYPE=dsa\nINTERFACE=net0\nIFINDEX=3\n", "wired"), ("DEVTYPE=bluetooth\nINTERFACE=net0\nIFINDEX=3\n", "other"),
    ])
    func ethernetKindComesFromDeviceType(event: String, kind: String) throws {
        let folder = try TemporaryFolder()
        try folder.add("net0", event: event)
        let devices = DeviceTypes(folder: folder.path)
        #expect(NetworkInterface.Kind(kind: "", hardwareType: 1, device("net0"), devices).rawValue == kind)
        #expect(NetworkInterface.Kind(kind: "veth", hardwareType: 1, device("net0"), devices) == .virtual)
    }

    @Test(arguments: [("wwan", "cellular"), ("", "tunnel")])
    func rawIPIsModemOrTunnel(type: String, kind: String) throws {
        let folder = try TemporaryFolder()
        try folder.add("net0", address: "\n", event: "DEVTYPE=\(type)\nINTERFACE=net0\nIFINDEX=3\n")
        let device = DeviceTypes.Device(index: 3, name: Array("net0".utf8), hardwareAddress: [])
        for hardware: UInt32 in [519, 0xfffe] {
            #expect(NetworkInterface.Kind(kind: "", hardwareType: hardware, device, .init(folder: folder.path)).rawValue == kind)
        }
    }

    /// The other device has the same name, or the same index too; or the files are unusable.
    @Test(arguments: [
        ("02:00:00:00:00:fe\n", "DEVTYPE=wlan\nINTERFACE=net0\nIFINDEX=3\n"),
        ("\n", "DEVTYPE=wlan\nINTERFACE=net0\nIFINDEX=3\n"),
        ("02:00:00:00:00:ff\n", "DEVTYPE=wlan\nINTERFACE=net0\nIFINDEX=33\n"),
        ("02:00:00:00:00:ff\n", "DEVTYPE=wlan\nINTERFACE=net1\nIFINDEX=3\n"), ("02:00:00:00:00:ff\n", "DEVTYPE=wlan\n"),
        ("02:00:00:00:00:ff\n", ""),
    ])
    func deviceOfOtherNamespaceIsIgnored(address: String, event: String) throws {
        let folder = try TemporaryFolder()
        try folder.add("net0", address: address, event: event)
        let devices = DeviceTypes(folder: folder.path)
        #expect(devices.type(of: device("net0")) == nil)
        #expect(NetworkInterface.Kind(kind: "", hardwareType: 1, device("net0"), devices) == .other)
    }

    @Test(arguments: ["", ".", "..", "net0/../net0", "missing", "net0\0"])
    func invalidNamesAreNotRead(name: String) throws {
        let folder = try TemporaryFolder()
        try folder.add("net0", event: "INTERFACE=\(name)\nIFINDEX=3\n")
        #expect(DeviceTypes(folder: folder.path).type(of: device(name)) == nil)
    }

    @Test func answerIsCachedPerDevice() throws {
        let folder = try TemporaryFolder()
        try folder.add("net0", event: "INTERFACE=net0\nIFINDEX=3\n")
        let devices = DeviceTypes(folder: folder.path)
        #expect(devices.type(of: device("net0", index: 4)) == nil)
        #expect(devices.type(of: device("net0")) == "")
        try folder.replace("net0", event: "DEVTYPE=wlan\nINTERFACE=net0\nIFINDEX=4\n")
        #expect(devices.type(of: device("net0")) == "", "kept")
        #expect(devices.type(of: device("net0", index: 4)) == "wlan", "an unknown type is read again")
    }

    @Test func cacheIsBounded() throws {
        let folder = try TemporaryFolder()
        try folder.add("net0", event: "INTERFACE=net0\nIFINDEX=3\n")
        let devices = DeviceTypes(folder: folder.path)
        for index in UInt32(1)...600 {
            try folder.replace("net0", event: "INTERFACE=net0\nIFINDEX=\(index)\n")
            #expect(devices.type(of: device("net0", index: index)) == "")
        }
        #expect(devices.type(of: device("net0", index: 1)) == nil, "no longer kept")
        #expect(devices.type(of: device("net0", index: 600)) == "")
    }

    /// The names of hardware interfaces, if /sys shows this namespace.
    private static let hardware =
        (try? KernelNetwork().interfaces())?.map(\.name)
        .filter { access("/sys/class/net/\($0)/device", F_OK) == 0 } ?? []

    @Test(.enabled(if: !hardware.isEmpty)) func hardwareOfThisMachineIsKnown() throws {
        let interfaces = try KernelNetwork().interfaces().filter { Self.hardware.contains($0.name) }
        #expect(!interfaces.isEmpty && !interfaces.contains { $0.kind == .other || $0.kind == .tunnel }, "\(interfaces)")
    }

    @Test func recordingOfOtherMachineHasNoDevices() {
        #expect(NetworkInterface.Kind(kind: "", hardwareType: 1, device("eth0"), nil) == .other)
        let interfaces = [NetworkInterface(index: 2, name: "v", kind: .virtual), .init(index: 3, name: "e", kind: .other)]
        #expect(interfaces.likeliest?.index == 3, "hardware takes precedence")
    }
}
