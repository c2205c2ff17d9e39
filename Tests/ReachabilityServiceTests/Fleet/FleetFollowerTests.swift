import CommandKit
import Testing

@testable import ReachableFleet
@testable import reachability_service

struct FleetFollowerTests {
    private var follower: FleetFollower

    init() throws { follower = FleetFollower(of: try FleetName("home"), .text, TextStyle()) }

    private func lines(
        _ follower: inout FleetFollower, _ sequence: UInt64, _ kind: FleetChange.Kind, _ nodes: [FleetNode],
        unknownSince: Duration? = nil
    ) -> [String] {
        follower.lines(
            for: FleetChange(sequence: sequence, kind: kind),
            FleetSamples.picture(nodes, unknownSince: unknownSince, sequence: sequence), problem: "the line is dead",
            at: FleetSamples.now)
    }

    @Test func theTableIsFirst() throws {
        var follower = follower
        #expect(lines(&follower, 0, .unknown, [], unknownSince: FleetSamples.midnight) == [])
        #expect(try lines(&follower, 1, .current, [FleetSamples.node("nas")]).count == 2)
    }

    @Test func anOutageOfTheBrokerIsTwoLines() throws {
        var follower = follower
        let (nas, kiosk) = (try FleetSamples.node("nas"), try FleetSamples.node("kiosk"))
        _ = lines(&follower, 1, .current, [kiosk, nas])
        let since = FleetSamples.now - .seconds(65)
        let unknown = lines(&follower, 2, .unknown, [kiosk, nas], unknownSince: since)
        #expect(unknown == ["2026-01-01 01:00:00.000  ◌ unknown       all nodes  the line is dead"])
        // Levels that are kept no longer are no news.
        #expect(lines(&follower, 3, .keptLongEnough, [kiosk, nas], unknownSince: since) == [])
        let known = lines(&follower, 4, .current, [kiosk, nas])
        #expect(known == ["2026-01-01 01:00:00.000  ● known         all nodes  after 1m 5s unknown"])
    }

    @Test func whatHasChangedMeanwhileFollows() throws {
        var follower = follower
        let (nas, kiosk) = (try FleetSamples.node("nas"), try FleetSamples.node("kiosk"))
        _ = lines(&follower, 1, .current, [kiosk, nas])
        _ = lines(&follower, 2, .unknown, [kiosk, nas], unknownSince: FleetSamples.now)
        let lost = try FleetSamples.node("nas", .lost, seen: FleetSamples.now)
        let known = try lines(&follower, 3, .current, [lost, FleetSamples.node("new")])
        #expect(known.count == 4, "\(known)")
        #expect(known[1].contains("– removed       kiosk") && known[2].contains("✕ lost          nas  "))
        #expect(known[3].contains("● online        new") && known[3].hasSuffix("new"))
    }

    @Test func lostChangesAreReadFromThePicture() throws {
        var follower = follower
        _ = try lines(&follower, 1, .current, [FleetSamples.node("nas")])
        let (kiosk, nas) = (try FleetSamples.node("kiosk"), try FleetSamples.node("nas", .offline, since: FleetSamples.now))
        // The third was dropped.
        let all = lines(&follower, 3, .node(nas), [kiosk, nas])
        #expect(all.count == 2 && all[0].contains("kiosk") && all[1].contains("○ offline"), "\(all)")
        let one = try lines(&follower, 4, .removed(FleetName("kiosk")), [nas])
        #expect(one.count == 1 && one[0].contains("removed       kiosk"))
    }

    @Test func eachLineOfJSONIsAnEvent() throws {
        var follower = FleetFollower(of: try FleetName("home"), .json, TextStyle())
        let nas = try FleetSamples.node("nas")
        let unknown = lines(&follower, 0, .unknown, [], unknownSince: FleetSamples.midnight)
        #expect(
            unknown == [
                #"{"event":"picture","time":"2026-01-01T01:00:00.000000Z","site":"home","current":false,"#
                    + #""unknownSince":"2026-01-01T00:00:00.000000Z","problem":null,"nodes":0}"#
            ])
        let current = lines(&follower, 1, .current, [nas])
        let node =
            #""name":"nas","state":"online","lastState":"online","reason":null,"since":"2026-01-01T00:00:00.000000Z","#
            + #""lastSeen":"2026-01-01T00:00:00.000000Z","old":false,"run":"r1","epoch":1}"#
        #expect(current.count == 2 && current[0].contains(#""current":true,"unknownSince":null,"problem":null,"nodes":1}"#))
        #expect(current.last == #"{"event":"node","time":"2026-01-01T01:00:00.000000Z",\#(node)"#)
        #expect(lines(&follower, 2, .node(nas), [nas]) == [current[1]])
        let unset = try FleetSamples.node("board", since: .zero)
        #expect(lines(&follower, 3, .node(unset), [nas, unset])[0].contains(#""since":"1970-01-01T00:00:00.000000Z""#))
        let removed = try lines(&follower, 4, .removed(FleetName("nas")), [])
        #expect(removed == [#"{"event":"removed","time":"2026-01-01T01:00:00.000000Z","name":"nas"}"#])
        #expect(lines(&follower, 5, .unknown, [], unknownSince: FleetSamples.now)[0].contains(#""problem":"the line is dead""#))
    }
}
