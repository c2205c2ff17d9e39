import ArgumentParser
import ReachableFleet
import Testing

@testable import CommandKit
@testable import reachability_service

struct FleetOptionTests {
    private func failure(_ words: [String], _ environment: [String: String] = [:]) throws -> CommandFailure? {
        let settings = try BrokerOptions.parse(words).settings { environment[$0] }
        do throws(CommandFailure) {
            _ = try FleetPlace(settings)
            return nil
        } catch {
            return error
        }
    }

    @Test func optionsComeBeforeTheEnvironment() throws {
        let names = ["BROKER", "SITE", "USER", "PASSWORD_FILE", "CA", "CERTIFICATE", "KEY"]
        let environment = Dictionary(uniqueKeysWithValues: names.map { ("REACHABILITY_FLEET_\($0)", "of \($0)") })
        let own = try BrokerOptions.parse(["--broker", "own", "--broker-ca", "file"]).settings { environment[$0] }
        #expect(
            own
                == BrokerSettings(
                    broker: "own", site: "of SITE", user: "of USER", passwordFile: "of PASSWORD_FILE", caFile: "file",
                    certificateFile: "of CERTIFICATE", keyFile: "of KEY"))
        #expect(try BrokerOptions.parse([]).settings { _ in "" } == BrokerSettings())
    }

    @Test func aPlaceNeedsABrokerAndASite() throws {
        #expect(try failure(["--broker", "mqtt://[::1]:18830", "--site", "home"]) == nil)
        #expect(try failure([], ["REACHABILITY_FLEET_BROKER": "mqtts://nas", "REACHABILITY_FLEET_SITE": "home"]) == nil)
        for (words, text) in [
            (["--site", "home"], "no broker is named"), (["--broker", "mqtt://nas"], "no site is named"),
            (["--broker", "mqtt://nas", "--site", "a/b"], "is not a name"), (["--broker", "nas", "--site", "home"], "no scheme"),
            (["--broker", "mqtt://nas", "--site", "home", "--broker-ca", "ca.pem"], "without TLS"),
        ] {
            let failure = try #require(try failure(words))
            #expect(failure.status == .usage && failure.message.contains(text) && failure.message.contains("next: "), "\(failure)")
        }
    }

    @Test func aPasswordInTheAddressIsRefusedAndNotRepeated() throws {
        let secret = "mqtts://ada:secret@nas"
        for failure in [
            try failure(["--broker", secret, "--site", "home"]),
            try failure(["--site", "home"], ["REACHABILITY_FLEET_BROKER": secret]),
        ] {
            #expect(failure?.status == .usage && failure?.message.contains("password") == true)
            #expect(failure?.message.contains("secret") == false)
        }
    }

    @Test func statusesFollowFromFailures() throws {
        let site = try FleetName("home")
        for (code, status) in [
            (FleetError.Code.refused, ExitStatus.notPermitted), (.unusableFile, .noInput), (.notSecure, .unknown),
            (.unreachable, .unknown), (.connectionLost, .unknown),
        ] {
            let failure = CommandFailure(FleetError(code, subject: "text"), of: site)
            #expect(failure.status == status && failure.message == "the site home is unknown: text")
        }
    }

    @Test func theDefaultCommandLists() throws {
        let list = try #require(try ReachabilityService.parse(["fleet", "--follow", "--format", "json"]) as? FleetListCommand)
        #expect(list.follow && list.form.format == .json && list.visit.timeLimit == .seconds(10))
        #expect(try ReachabilityService.parse(["fleet", "trigger", "retry-now", "--within", "5m"]) is FleetTriggerCommand)
        #expect(try ReachabilityService.parse(["fleet", "forget", "nas", "door"]) is FleetForgetCommand)
        let wait = try #require(try ReachabilityService.parse(["wait", "--node", "nas", "--node=door"]) as? NodeWaitCommand)
        #expect(wait.options.node == ["nas", "door"] && wait.options.target.destinations.isEmpty)
    }

    @Test(arguments: [
        ["fleet", "lst"], ["fleet", "trigger"], ["fleet", "forget"], ["fleet", "--follow", "--timeout", "5s"],
        ["fleet", "trigger", "x", "--within", "0s"], ["fleet", "trigger", "x", "--within", "2h"], ["serve", "--announce", ""],
        ["serve", "--site", "home"], ["serve", "--announce", "none", "--broker", "mqtt://nas"],
    ])
    func contradictionsAreRefused(_ words: [String]) {
        let error = #expect(throws: (any Error).self) { try ReachabilityService.parse(words) }
        #expect(error.map { ReachabilityService.exitCode(for: $0).rawValue } == ExitStatus.usage.rawValue)
    }

    @Test func aMisspeltSubcommandHasASuggestion() {
        let error = #expect(throws: (any Error).self) { try ReachabilityService.parse(["fleet", "triger"]) }
        #expect(error.map { ReachabilityService.fullMessage(for: $0).contains("next: try 'trigger'") } == true)
    }

    @Test func theServiceIsAnnouncedByOptionOrVariable() throws {
        let variables = [
            "REACHABILITY_FLEET_NODE": "kiosk", "REACHABILITY_FLEET_BROKER": "mqtt://nas", "REACHABILITY_FLEET_SITE": "home",
        ]
        func node(_ words: [String]) throws -> String? {
            try ServeFleetOptions.parse(words).place { variables[$0] }?.node.description
        }
        #expect(try node([]) == "kiosk")
        #expect(try node(["--announce", "own"]) == "own")
        #expect(try node(["--announce", "none"]) == nil)
        #expect(try ServeFleetOptions.parse([]).place { _ in nil } == nil)
    }

    @Test func aNodeIsNotForgottenWhileItIsThere() throws {
        let picture = FleetSamples.picture([
            try FleetSamples.node("gone", .lost), try FleetSamples.node("here", .offline), try FleetSamples.node("nas"),
        ])
        #expect(try FleetForgetCommand.obstacle(to: FleetName("gone"), picture) == nil)
        for (name, text) in [("here", "stop it first"), ("nas", "stop it first"), ("other", "there is no node other")] {
            let obstacle = try #require(try FleetForgetCommand.obstacle(to: FleetName(name), picture))
            #expect(obstacle.contains(text) && obstacle.contains("next: "))
        }
    }

    @Test func aTriggerTellsHowManyHearIt() throws {
        let retry = try FleetName("retry-now")
        let (nas, kiosk) = (try FleetSamples.node("nas"), try FleetSamples.node("kiosk", .offline))
        func line(_ nodes: [FleetNode], _ limit: Duration = .seconds(60)) -> String {
            FleetTriggerCommand.line(retry, limit, FleetSamples.picture(nodes))
        }
        #expect(line([nas, kiosk]) == "sent retry-now to 2 connected nodes, which act within 10s")
        #expect(line([nas], .seconds(4)) == "sent retry-now to 1 connected node, which acts within 4s")
        #expect(try line([FleetSamples.node("nas", .lost)]) == "sent retry-now, and no node is connected that could hear it")
    }
}
