import ArgumentParser
import Reachability
import Testing

@testable import CommandKit
@testable import reachability_watch

struct CommandLineTests {
    @Test func theDefaultScopeIsTheInternet() throws {
        #expect(try ScopeOptions.parse([]).scopes == [.internet])
    }

    @Test func scopesAreUniqueAndInOrder() throws {
        let options = try ScopeOptions.parse(["--to", "192.0.2.7", "--to", "2001:db8::7", "--to", "192.0.2.7"])
        #expect(options.scopes.map(\.description) == ["192.0.2.7", "2001:db8::7"])
    }

    @Test func theInternetIsADestinationAmongOthers() throws {
        let options = try ScopeOptions.parse(["--to", "internet", "--to", "192.0.2.7", "--to", "internet%eth0"])
        #expect(options.scopes.map(\.description) == ["internet", "192.0.2.7", "internet%eth0"] && options.scopes[0] == .internet)
        // The dot makes it a host.
        #expect(try ScopeOptions.parse(["--to", "internet."]).scopes == [.host("internet.")])
    }

    @Test func optionsApplyToEveryScope() throws {
        let options = try ScopeOptions.parse([
            "--to", "192.0.2.7", "--to", "::1", "--mark", "0x2a", "--uid", "7", "--interface", "eth0",
        ])
        #expect(options.scopes.map(\.description) == ["192.0.2.7%eth0 mark 0x2a uid 7", "::1%eth0 mark 0x2a uid 7"])
        #expect(try ScopeOptions.parse(["--mark", "1"]).scopes.map(\.description) == ["internet mark 0x1"])
    }

    @Test func transportAndPortApplyToEveryScope() throws {
        let options = try ScopeOptions.parse(["--to", "192.0.2.7", "--to", "internet", "--udp", "--port", "53"])
        #expect(options.scopes.map(\.description) == ["192.0.2.7 udp port 53", "internet udp port 53"])
        #expect(try ScopeOptions.parse(["--port", "443"]).scopes.map(\.description) == ["internet port 443"])
        for port in ["0", "65536", "-1", "+1", "https", ""] {
            #expect(throws: (any Error).self, "\(port)") { try ScopeOptions.parse(["--port", port]) }
        }
    }

    @Test(arguments: ["239.255.255.250", "224.0.0.251", "255.255.255.255", "ff02::fb%eth0"])
    func destinationWithManyReceiversNeedsUDP(text: String) throws {
        #expect(throws: (any Error).self) { try ScopeOptions.parse(["--to", text]) }
        #expect(try ScopeOptions.parse(["--to", text, "--udp"]).scopes.map(\.transport) == [.udp])
    }

    @Test func linkLocalAddressesNameTheirInterface() throws {
        #expect(try ScopeOptions.parse(["--to", "fe80::1%eth0"]).scopes.map(\.interface) == ["eth0"])
        #expect(try ScopeOptions.parse(["--to", "fe80::1", "--interface", "eth1"]).scopes.map(\.interface) == ["eth1"])
    }

    @Test(arguments: [("lab", "/run/netns/lab"), ("/proc/7/ns/net", "/proc/7/ns/net"), ("./here", "./here")])
    func namespacesHaveAFile(_ name: String, _ path: String) throws {
        #expect(try ScopeOptions.parse(["--netns", name]).namespacePath == path)
    }

    @Test func watchIsTheDefaultCommand() throws {
        let command = try #require(try ReachabilityWatch.parseAsRoot(["--count", "3", "--format", "json"]) as? WatchCommand)
        #expect(command.count == 3)
        #expect(command.lines.form.format == .json)
        #expect(command.limit.duration == nil)
        #expect(try #require(try ReachabilityWatch.parseAsRoot([]) as? WatchCommand).lines.form.format == .text)
    }

    @Test(arguments: [["watch"], ["status"], ["explain"], ["replay", "x"]]) func colourIsAnOption(_ words: [String]) throws {
        #expect(throws: Never.self) { try ReachabilityWatch.parseAsRoot(words + ["--color", "never"]) }
        #expect(throws: Never.self) { try ReachabilityWatch.parseAsRoot(words + ["--color=always"]) }
    }

    @Test func theLogHasLimits() throws {
        #expect(try LogOptions.parse([]).place == nil)
        #expect(try LogOptions.parse(["--log", "x"]).place == .init(path: ForeignText("x"), largest: 10 << 20, kept: 5))
        let words = ["--log", "x", "--log-size", "4KiB", "--log-keep", "0"]
        #expect(try LogOptions.parse(words).place == .init(path: ForeignText("x"), largest: 4096, kept: 0))
    }

    @Test func parsesTheOptionsOfWait() throws {
        let words = ["wait", "--until", "unsatisfied", "--timeout", "2s", "-v"]
        let command = try #require(try ReachabilityWatch.parseAsRoot(words) as? WaitCommand)
        #expect(command.options.until == .unsatisfied)
        #expect(command.options.timeout?.duration == .seconds(2))
        #expect(command.options.verbose)
    }

    @Test func onlyAWaitForANodeIsHandedOver() {
        for words in [["wait", "--node", "nas"], ["wait", "--to", "192.0.2.1", "--node=nas"], ["wait", "-v", "--node"]] {
            #expect(ServiceProgram.isNamed(in: words))
        }
        for words in [["wait"], ["wait", "--to", "192.0.2.1"], ["watch", "--node", "nas"], ["--node", "nas"], ["help", "wait"]] {
            #expect(!ServiceProgram.isNamed(in: words))
        }
    }

    @Test(arguments: [
        ["--to", "fe80::1"], ["--to", "fe80::1%eth0", "--interface", "eth1"], ["--count", "0"], ["--count", "-1"],
        ["--count", "many"],
        ["--for", "5"], ["--format", "xml"], ["--netns", ""], ["--to", "192.0.2.300"], ["status", "--count", "1"], ["frobnicate"],
        ["wait", "--until", "unknown"], ["wait", "--site", "home"],
        ["wait", "--timeout", "soon"], ["--mark", "-1"], ["explain", "--raw"],
        ["--exec", ""], ["--exec-timeout", "5s"], ["--exec", "true", "--exec-timeout", "0s"], ["--exec", "echo", "word"],
        ["--color", "sometimes"], ["wait", "--color", "never"], ["--log", ""], ["--log", "-"], ["--log-size", "1MiB"],
        ["--log-keep", "3"], ["--log", "x", "--log-size", "4095"], ["--log", "x", "--log-size", "10 MB"],
        ["--log", "x", "--log-keep", "1001"], ["replay", "x", "--log", "y"],
    ])
    func rejectsContradictoryOptions(_ words: [String]) {
        let error = #expect(throws: (any Error).self) { try ReachabilityWatch.parseAsRoot(words) }
        #expect(error.map { ReachabilityWatch.exitCode(for: $0).rawValue } == ExitStatus.usage.rawValue)
    }

    @Test(
        arguments: [
            WatchCommand.self, StatusCommand.self, WaitCommand.self, ExplainCommand.self, RecordCommand.self, ReplayCommand.self,
            SimulateCommand.self,
        ] as [any ParsableCommand.Type])
    func everyOptionHasHelp(_ command: any ParsableCommand.Type) {
        let help = command.helpMessage(columns: 400)
        // The text is behind a short name, or below a long one.
        let lines = help.split(separator: "\n")
        for (line, next) in zip(lines, lines.dropFirst() + [""]) where line.hasPrefix("  --") {
            let isBehind = line.split(separator: "  ", omittingEmptySubsequences: true).count >= 2
            #expect(isBehind || next.hasPrefix("      "), "no help in: \(line)")
        }
        #expect(help.contains("EXAMPLES"))
    }
}

struct CommandSuggestionTests {
    private let suggestion = ReachabilityWatch.suggestion

    @Test(arguments: [
        ("staus", "status"), ("STATUS", "status"), ("wiat", "wait"), ("wtach", "watch"), ("explan", "explain"), ("expl", "explain"),
        ("recrod", "record"), ("rply", "replay"), ("runn", "run"), ("hlep", "help"), ("stauts", "status"),
        ("simulat", "simulate"),
    ])
    func suggestsTheNearestName(_ word: String, _ name: String) {
        #expect(suggestion.nearest(to: word) == name)
    }

    @Test(arguments: ["", "x", "frobnicate", "nas.example.org", "192.0.2.1", "re", "r", String(repeating: "w", count: 10_000)])
    func suggestsNoDistantName(_ word: String) {
        #expect(suggestion.nearest(to: word) == nil)
    }

    @Test func findsTheWordBeforeTheOptions() {
        #expect(suggestion.unknownCommand(in: ["staus", "--to", "x"]) == "staus")
        for words in [[], ["status"], ["--to", "x"], ["help", "run"], ["-h"], ["run", "--", "x"]] {
            #expect(suggestion.unknownCommand(in: words) == nil)
        }
    }
}
