import Glibc
import Testing

@testable import Reachability

struct DeviceTypesTests {
    /// A folder like /sys/class/net, gone with the object.
    private final class Folder {
        let path: String
        private var entries: [String] = []

        init() throws {
            var template = Array("/tmp/reachability-devices-XXXXXX".utf8CString)
            path = String(cString: try #require(mkdtemp(&template)))
        }

        deinit {
            for entry in entries.reversed() { remove(entry) }
            remove(path)
        }

        func add(_ name: String, address: String = "02:00:00:00:00:ff\n", event: String) throws {
            let device = "\(path)/\(name)"
            #expect(mkdir(device, 0o700) == 0)
            entries.append(device)
            for (file, text) in [("address", address), ("uevent", event)] {
                let file = "\(device)/\(file)"
                entries.append(file)
                let stream = try #require(fopen(file, "wb"))
                fputs(text, stream)
                fclose(stream)
            }
        }

        func replace(_ name: String, event: String) throws {
            let stream = try #require(fopen("\(path)/\(name)/uevent", "wb"))
            fputs(event, stream)
            fclose(stream)
        }
    }

    private let address: [UInt8] = [2, 0, 0, 0, 0, 0xFF]

    private func device(_ name: String, index: UInt32 = 3) -> DeviceTypes.Device {
        DeviceTypes.Device(index: index, name: Array(name.utf8), hardwareAddress: address)
    }

    @Test(arguments: [
        ("DEVTYPE=wlan\nINTERFACE=net0\nIFINDEX=3\n", "wireless"), ("DEVTYPE=wwan\nINTERFACE=net0\nIFINDEX=3\n", "cellular"),
        ("INTERFACE=net0\nIFINDEX=3\n", "wired"), ("INTERFACE=net0\nIFINDEX=3", "wired"),
        ("DEVTYPE=dsa\nINTERFACE=net0\nIFINDEX=3\n", "wired"), ("DEVTYPE=bluetooth\nINTERFACE=net0\nIFINDEX=3\n", "other"),
    ])
    func ethernetIsToldByItsDeviceType(event: String, kind: String) throws {
        let folder = try Folder()
        try folder.add("net0", event: event)
        let devices = DeviceTypes(folder: folder.path)
        #expect(NetworkInterface.Kind(kind: "", hardwareType: 1, device("net0"), devices).rawValue == kind)
        #expect(NetworkInterface.Kind(kind: "veth", hardwareType: 1, device("net0"), devices) == .virtual)
    }

    @Test(arguments: [("wwan", "cellular"), ("", "tunnel")])
    func rawIPIsAModemOrATunnel(type: String, kind: String) throws {
        let folder = try Folder()
        try folder.add("net0", address: "\n", event: "DEVTYPE=\(type)\nINTERFACE=net0\nIFINDEX=3\n")
        let device = DeviceTypes.Device(index: 3, name: Array("net0".utf8), hardwareAddress: [])
        for hardware: UInt32 in [519, 0xfffe] {
            #expect(NetworkInterface.Kind(kind: "", hardwareType: hardware, device, .init(folder: folder.path)).rawValue == kind)
        }
    }

    /// The other namespace's device has the same name, or the same index too; or the files are of another kind altogether.
    @Test(arguments: [
        ("02:00:00:00:00:fe\n", "DEVTYPE=wlan\nINTERFACE=net0\nIFINDEX=3\n"),
        ("\n", "DEVTYPE=wlan\nINTERFACE=net0\nIFINDEX=3\n"),
        ("02:00:00:00:00:ff\n", "DEVTYPE=wlan\nINTERFACE=net0\nIFINDEX=33\n"),
        ("02:00:00:00:00:ff\n", "DEVTYPE=wlan\nINTERFACE=net1\nIFINDEX=3\n"), ("02:00:00:00:00:ff\n", "DEVTYPE=wlan\n"),
        ("02:00:00:00:00:ff\n", ""),
    ])
    func deviceOfAnotherNamespaceIsNotBelieved(address: String, event: String) throws {
        let folder = try Folder()
        try folder.add("net0", address: address, event: event)
        let devices = DeviceTypes(folder: folder.path)
        #expect(devices.type(of: device("net0")) == nil)
        #expect(NetworkInterface.Kind(kind: "", hardwareType: 1, device("net0"), devices) == .other)
    }

    @Test(arguments: ["", ".", "..", "net0/../net0", "missing", "net0\0"])
    func impossibleNamesAreNotLookedUp(name: String) throws {
        let folder = try Folder()
        try folder.add("net0", event: "INTERFACE=\(name)\nIFINDEX=3\n")
        #expect(DeviceTypes(folder: folder.path).type(of: device(name)) == nil)
    }

    @Test func answerIsKeptForTheSameDeviceOnly() throws {
        let folder = try Folder()
        try folder.add("net0", event: "INTERFACE=net0\nIFINDEX=3\n")
        let devices = DeviceTypes(folder: folder.path)
        #expect(devices.type(of: device("net0", index: 4)) == nil)
        #expect(devices.type(of: device("net0")) == "")
        try folder.replace("net0", event: "DEVTYPE=wlan\nINTERFACE=net0\nIFINDEX=4\n")
        #expect(devices.type(of: device("net0")) == "", "kept")
        #expect(devices.type(of: device("net0", index: 4)) == "wlan", "an unknown type is read again")
    }

    @Test func manyDevicesDoNotFillTheMemory() throws {
        let folder = try Folder()
        try folder.add("net0", event: "INTERFACE=net0\nIFINDEX=3\n")
        let devices = DeviceTypes(folder: folder.path)
        for index in UInt32(1)...600 {
            try folder.replace("net0", event: "INTERFACE=net0\nIFINDEX=\(index)\n")
            #expect(devices.type(of: device("net0", index: index)) == "")
        }
        #expect(devices.type(of: device("net0", index: 1)) == nil, "no longer kept")
        #expect(devices.type(of: device("net0", index: 600)) == "")
    }

    /// The names of interfaces with a device to touch, as far as /sys is this namespace's.
    private static let hardware =
        (try? KernelNetwork().interfaces())?.map(\.name)
        .filter { access("/sys/class/net/\($0)/device", F_OK) == 0 } ?? []

    @Test(.enabled(if: !hardware.isEmpty)) func hardwareOfThisMachineIsKnown() throws {
        let interfaces = try KernelNetwork().interfaces().filter { Self.hardware.contains($0.name) }
        #expect(!interfaces.isEmpty && !interfaces.contains { $0.kind == .other || $0.kind == .tunnel }, "\(interfaces)")
    }

    @Test func recordingOfAnotherMachineKnowsNoHardware() {
        #expect(NetworkInterface.Kind(kind: "", hardwareType: 1, device("eth0"), nil) == .other)
        let interfaces = [NetworkInterface(index: 2, name: "v", kind: .virtual), .init(index: 3, name: "e", kind: .other)]
        #expect(interfaces.likeliest?.index == 3, "hardware all the same")
    }
}
