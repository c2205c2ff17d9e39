import Testing

@testable import ReachableFleet

@Suite struct FleetBrokerTests {
    static let good: [(url: String, host: String, port: UInt16, usesTLS: Bool, user: String?)] = [
        ("mqtt://nas", "nas", 1883, false, nil),
        ("mqtts://nas.local/", "nas.local", 8883, true, nil),
        ("MQTT://nas:1", "nas", 1, false, nil),
        ("mqtts://kiosk@nas:65535", "nas", 65535, true, "kiosk"),
        ("mqtt://192.0.2.1:1884", "192.0.2.1", 1884, false, nil),
        ("mqtt://[2001:db8::1]", "2001:db8::1", 1883, false, nil),
        ("mqtts://[2001:db8::1]:9", "2001:db8::1", 9, true, nil),
    ]

    @Test(arguments: good.map(\.url)) func addressesAreRead(url: String) throws {
        let row = try #require(Self.good.first { $0.url == url })
        let broker = try FleetBroker(url)
        #expect(broker.host == row.host && broker.port == row.port && broker.usesTLS == row.usesTLS && broker.user == row.user)
    }

    @Test(arguments: [
        "", "nas", "http://nas", "mqtt://", "mqtt:///", "mqtt://nas:", "mqtt://nas:0", "mqtt://nas:65536", "mqtt://nas:x",
        "mqtt://nas/topic", "mqtt://nas?x", "mqtt://a b", "mqtt://[nas]", "mqtt://[::1", "mqtt://[::1]x", "mqtt://::1",
        "mqtt://@nas",
    ]) func otherAddressesAreRefused(url: String) {
        let error = #expect(throws: FleetError.self) { try FleetBroker(url) }
        #expect(error?.code == .invalidBroker)
        #expect(error?.description.contains("; next: ") == true)
    }

    @Test func passwordInAnAddressIsRefusedAndNotRepeated() {
        let error = #expect(throws: FleetError.self) { try FleetBroker("mqtts://kiosk:flabbergast@nas") }
        #expect(error?.description.contains("file") == true && error?.description.contains("flabbergast") == false)
    }

    @Test func filesThatDoNotFitAreRefused() {
        let calls: [() throws -> FleetBroker] = [
            { try FleetBroker("mqtts://nas", passwordFile: "/p") },
            { try FleetBroker("mqtt://nas", caFile: "/ca") },
            { try FleetBroker("mqtts://nas", caFile: "/ca", certificateFile: "/c") },
            { try FleetBroker("mqtts://nas", caFile: "/ca", keyFile: "/k") },
            { try FleetBroker("mqtts://nas", certificateFile: "/c", keyFile: "/k") },
            { try FleetBroker("mqtts://one@nas", user: "two") },
            { try FleetBroker("mqtts://nas", user: "") },
            { try FleetBroker("mqtts://nas", caFile: "") },
        ]
        for (number, call) in calls.enumerated() {
            #expect(throws: FleetError.self, "call \(number)") { try call() }
        }
    }

    @Test func descriptionNamesHostAndPortOnly() throws {
        #expect(try FleetBroker("mqtts://kiosk@[::1]", passwordFile: "/secret").description == "[::1]:8883")
    }
}
