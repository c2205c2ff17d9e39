import CNetlink
import Testing

@Suite struct RouteDecodingTests {
    private let gateway: [UInt8] = [192, 0, 2, 1]
    private let gateway6: [UInt8] = [0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]

    private func hop(_ interface: UInt32, _ attributes: [Attribute]) -> [UInt8] {
        let body = attributes.flatMap(\.bytes)
        return Frame.raw(UInt16(8 + body.count)) + [0, 0] + Frame.raw(interface) + body
    }

    @Test func defaultRouteIsDecodedCompletely() throws {
        let attributes = [
            Attribute(15, 1000), Attribute(6, 100), Attribute(4, 3), Attribute(5, gateway), Attribute(7, [192, 0, 2, 10]),
            Attribute(30, 12), Attribute(8, nested: [Attribute(2, 1400)]),
        ]
        let message = try #require(decodeOne(Frame.route(scope: 253, flags: 0x10, attributes)))
        #expect(message.kind == CNL_ROUTE)
        #expect(message.route.family == 2)
        #expect(message.route.destination_length == 0)
        #expect(message.route.destination.family == 0)
        #expect(message.route.type == 1)
        #expect(message.route.protocol == 3)
        #expect(message.route.scope == 253)
        #expect(message.route.table == 1000)
        #expect(message.route.flags == 0x10)
        #expect(message.route.metric == 100)
        #expect(message.route.interface == 3)
        #expect(message.route.nexthop == 12)
        #expect(message.route.gateway.octets == gateway)
        #expect(message.route.source.octets == [192, 0, 2, 10])
    }

    @Test func tableFallsBackToTheHeader() throws {
        let message = try #require(decodeOne(Frame.route(type: 25, prefix: 24, table: 253, [Attribute(1, [192, 0, 2, 0])])))
        #expect(message.kind == CNL_ROUTE_GONE)
        #expect(message.route.table == 253)
        #expect(message.route.destination_length == 24)
        #expect(message.route.destination.octets == [192, 0, 2, 0])
    }

    @Test func gatewayMayHaveOtherFamily() throws {
        let via = Attribute(18, Frame.raw(UInt16(10)) + gateway6)
        let message = try #require(decodeOne(Frame.route([via, Attribute(4, 3)])))
        #expect(message.route.gateway.family == 10)
        #expect(message.route.gateway.octets == gateway6)
    }

    @Test func multipathRouteUsesFirstNextHop() throws {
        let via = Attribute(18, Frame.raw(UInt16(10)) + gateway6)
        let hops = hop(5, [via]) + hop(6, [Attribute(5, gateway)])
        let message = try #require(decodeOne(Frame.route([Attribute(9, hops)])))
        #expect(message.kind == CNL_ROUTE)
        #expect(message.route.interface == 5)
        #expect(message.route.gateway.octets == gateway6)
    }

    @Test func ownNextHopWinsOverMultipath() throws {
        let hops = Attribute(9, hop(5, [Attribute(5, [192, 0, 2, 77])]))
        let message = try #require(decodeOne(Frame.route([hops, Attribute(4, 3), Attribute(5, gateway)])))
        #expect(message.route.interface == 3)
        #expect(message.route.gateway.octets == gateway)
    }

    @Test func replacementIsMarked() throws {
        #expect(try #require(decodeOne(Frame.route(messageFlags: 0x100, []))).is_replacement)
        #expect(try !#require(decodeOne(Frame.route(messageFlags: 0x400, []))).is_replacement)
    }

    @Test func answersMayRepeatTheQuery() throws {
        let cache = Attribute(12, [UInt8](repeating: 0, count: 32))
        let attributes = [Attribute(1, [192, 0, 2, 9]), Attribute(25, 1000), Attribute(16, 5), cache]
        let message = try #require(decodeOne(Frame.route(prefix: 32, flags: 0x200, attributes)))
        #expect(message.kind == CNL_ROUTE)
        #expect(message.route.destination.octets == [192, 0, 2, 9])
    }

    @Test(arguments: [UInt8(28), 128, 129, 0])
    func otherFamiliesAreIgnored(family: UInt8) {
        #expect(kinds(Frame.route(family: family, [])) == [CNL_OTHER])
    }

    @Test(arguments: [
        [Attribute(1, [1, 2, 3])], [Attribute(5, [UInt8](repeating: 1, count: 16))], [Attribute(4, [1])], [Attribute(15, [254])],
        [Attribute(18, [10])], [Attribute(18, [10, 0, 1])], [Attribute(18, [99, 0, 1, 2, 3, 4])],
        [Attribute(18, [2, 1, 1, 2, 3, 4])], [Attribute(9, [8, 0, 0, 0])],
        [Attribute(9, [200, 0, 0, 0, 5, 0, 0, 0])], [Attribute(9, [4, 0, 0, 0, 5, 0, 0, 0])], [Attribute(broken: [3, 0, 4, 0])],
    ])
    func invalidAttributesAreMalformed(attributes: [Attribute]) {
        #expect(kinds(Frame.route(attributes)) == [CNL_MALFORMED])
    }

    @Test func nextHopWithAMalformedAttributeIsMalformed() {
        let broken = [
            hop(5, [Attribute(5, [192, 0, 2])]), hop(5, [Attribute(18, [10])]), hop(5, [Attribute(broken: [3, 0, 5, 0])]),
        ]
        for hop in broken { #expect(kinds(Frame.route([Attribute(9, hop)])) == [CNL_MALFORMED]) }
    }

    @Test func nestedMetricsAreIgnored() {
        let metrics = [Attribute(8, [1]), Attribute(8, nested: [Attribute(broken: [9, 0, 2, 0])])]
        for metrics in metrics { #expect(kinds(Frame.route([metrics, Attribute(4, 3)])) == [CNL_ROUTE]) }
    }

    @Test(arguments: [22, 31, 200, 0x3FFF] as [UInt16])
    func unknownAttributesAreAllowed(type: UInt16) throws {
        let unknown = [Attribute(type, [1, 2, 3]), Attribute(type | 0xC000, [])]
        let message = try #require(decodeOne(Frame.route(unknown + [Attribute(4, 3)])))
        #expect(message.kind == CNL_ROUTE && message.route.interface == 3)
    }

    @Test func malformedAttributeSkipsOneMessage() {
        let (sound, broken) = (Frame.route([Attribute(4, 3)]), Frame.route([Attribute(4, [1])]))
        #expect(kinds(sound + broken + sound) == [CNL_ROUTE, CNL_MALFORMED, CNL_ROUTE])
    }

    @Test func wrongFamilyAddressesAreMalformed() {
        let long = [UInt8](repeating: 1, count: 16)
        for type in [1, 5, 7] as [UInt16] {
            #expect(kinds(Frame.route([Attribute(type, long)])) == [CNL_MALFORMED])
            #expect(kinds(Frame.route(family: 10, [Attribute(type, gateway)])) == [CNL_MALFORMED])
        }
    }

    @Test func invalidPrefixesAreMalformed() {
        #expect(kinds(Frame.route(prefix: 33, [])) == [CNL_MALFORMED])
        #expect(kinds(Frame.route(family: 10, prefix: 129, [])) == [CNL_MALFORMED])
    }

    @Test func everyNextHopIsRead() throws {
        let frame = Frame.route([
            Attribute(9, hop(5, [Attribute(5, [192, 0, 2, 1])]) + hop(6, []) + hop(7, [Attribute(5, [198, 51, 100, 1])]))
        ])
        let message = try #require(decodeOne(frame))
        #expect(message.route.interface == 5)
        var (route, position, hop, hops) = (message.route, UInt32(0), cnl_hop(), [(UInt32, [UInt8])]())
        frame.withUnsafeBytes { bytes in
            while let base = bytes.baseAddress, cnl_next_hop(base, &route, &position, &hop) {
                hops.append((hop.interface, hop.gateway.octets))
            }
        }
        #expect(hops.map(\.0) == [5, 6, 7] && hops.map(\.1) == [[192, 0, 2, 1], [], [198, 51, 100, 1]])
        var single = try #require(decodeOne(Frame.route([Attribute(4, 3)]))).route
        position = 0
        #expect(!cnl_next_hop(frame, &single, &position, &hop))
    }

    @Test func lifetimeIsRead() throws {
        // struct rta_cacheinfo: clntref, lastuse, expires, error and four more.
        func lifetime(_ ticks: Int32, size: Int = 32) throws -> UInt32 {
            let info = [UInt8](repeating: 0, count: 8) + Frame.raw(ticks) + [UInt8](repeating: 0, count: 20)
            return try #require(decodeOne(Frame.route(family: 10, [Attribute(4, 3), Attribute(12, Array(info.prefix(size)))])))
                .route.expires
        }
        #expect(try lifetime(500) == 500 && lifetime(0) == 0 && lifetime(-3) == 0 && lifetime(500, size: 12) == 0)
    }

    @Test func prefixWithoutDestinationIsMalformed() {
        #expect(kinds(Frame.route(prefix: 24, [Attribute(4, 3)])) == [CNL_MALFORMED])
        #expect(kinds(Frame.route(prefix: 0, [Attribute(4, 3)])) == [CNL_ROUTE])
    }
}
