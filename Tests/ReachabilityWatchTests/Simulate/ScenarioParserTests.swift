import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

@testable import CommandKit
@testable import reachability_watch

struct ScenarioParserTests {
    private func parse(_ text: String) throws(ScenarioErrors) -> Scenario { try ScenarioParser.parse(Array(text.utf8)) }

    private func errors(_ text: String) -> [String] {
        do {
            _ = try parse(text)
            return []
        } catch {
            return error.list.map(\.description)
        }
    }

    @Test func aJobAloneIsAScenario() throws {
        let scenario = try parse("job upload")
        #expect(scenario.jobs == [ScriptedJob(name: "upload")])
        #expect(scenario.title == nil && scenario.until == nil && scenario.release == .gated)
        #expect(scenario.network.linkNames == ["eth0"])
        #expect(scenario.network.uplinks.map(\.uplink) == [.working([try #require(IPAddress("192.0.2.10"))])])
        let rules = scenario.policies[0].policy.rules
        #expect(rules.maxAttempts == nil && rules.connectivity == .wait(upTo: nil) && rules.backoff.maximum == .seconds(30))
    }

    @Test func readsEveryStatement() throws {
        let scenario = try parse(
            """
            #!/usr/bin/env -S reachability-watch simulate
            # A laptop on a train
            # Another comment
            network eth0 192.0.2.10/24 via 192.0.2.1 unplugged   # a dock
            network eth0 2001:db8::10/64 via fe80::1
            network wlan0 198.51.100.10/24 via 198.51.100.1
            at 20s plug eth0
            at 5s default wlan0
            server photos answers 503 retry-after 30s from 10s to 1m
            server photos drops from 2m
            server quiet
            policy careful --backoff exponential:1s..30s --jitter none --attempts 10 --deadline 5m
            job upload at 2s to photos policy careful takes 300ms priority interactive
            jobs 3 photo at 1s every 500ms to quiet
            release paced 10
            timeout 3s
            until 2m
            """)
        #expect(scenario.title == "A laptop on a train")
        #expect(scenario.network.linkNames == ["eth0", "wlan0"])
        #expect(scenario.network.steps.map(\.at) == [.seconds(5), .seconds(20)])
        #expect(scenario.network.steps.map(\.action) == [.defaultRoute("wlan0"), .plug("eth0")])
        #expect(
            scenario.servers == [
                ScriptedServer(
                    name: "photos",
                    phases: [
                        .init(behaviour: .answers(503, retryAfter: .seconds(30)), from: .seconds(10), until: .seconds(60)),
                        .init(behaviour: .drops, from: .seconds(120)),
                    ]), ScriptedServer(name: "quiet"),
            ])
        #expect(scenario.policies.map(\.name) == ["default", "careful"])
        #expect(scenario.policies[1].text == "--attempts 10 --backoff exponential:1s..30s --jitter none --deadline 5m")
        #expect(scenario.policies[1].policy.rules.maxAttempts == 10)
        #expect(scenario.jobs.map(\.name) == ["upload", "photo-1", "photo-2", "photo-3"])
        #expect(scenario.jobs.map(\.at) == [.seconds(2), .seconds(1), .milliseconds(1500), .seconds(2)])
        #expect(
            scenario.jobs[0]
                == ScriptedJob(
                    name: "upload", at: .seconds(2), server: 0, policy: 1, takes: .milliseconds(300), priority: .interactive))
        #expect(scenario.release == .paced(perSecond: 10) && scenario.timeout == .seconds(3) && scenario.until == .seconds(120))
    }

    @Test func theOrderOfLinesDoesNotMatter() throws {
        let lines = [
            "job a to s policy p", "policy p --attempts 2", "server s refuses", "at 2s plug eth0", "at 1s pull eth0",
            "network eth0 192.0.2.10/24 via 192.0.2.1",
        ]
        let scenario = try parse(lines.joined(separator: "\r\n"))
        #expect(scenario.jobs == (try parse(lines.reversed().joined(separator: "\n"))).jobs)
        #expect(scenario.network.uplinks.map(\.at) == [.zero, .seconds(1), .seconds(2)])
        #expect(scenario.network.uplinks[1].uplink == .silent)
    }

    @Test(arguments: [
        ("", 1, "there is no job; next: add a line such as: job"),
        ("jbo a", 1, "'jbo' is not a statement; next: try 'job'"),
        ("# fine\n\nfrobnicate", 3, "'frobnicate' is not a statement; next: use one of: at, job, jobs"),
        ("job", 1, "a name is missing; next: write for example: job upload"),
        ("job a at", 1, "the time of the submission is missing"),
        ("job a at soon", 1, "'soon' is not a duration; next: write a number and a unit"),
        ("job a at 5", 1, "'5' is not a duration"),
        ("job a now", 1, "'now' is not an option of a job; next: use one of: at, to"),
        ("job a every 2s", 1, "'every' is not an option of a job"),
        ("job a at 1s at 2s", 1, "'at' is given twice"),
        ("job a to photos", 1, "there is no server 'photos'; next: add a line such as: server photos"),
        ("server photos\njob a to photo", 2, "'photo' is not a server; next: try 'photos'"),
        ("job a policy careful", 1, "'careful' is not a policy; next: use one of: default"),
        ("job a priority urgent", 1, "'urgent' is not a priority; next: use one of: interactive, normal, bulk"),
        ("job a\njob b\njob a", 3, "there are two jobs named 'a'"),
        ("jobs 2 a\njob a-2", 2, "there are two jobs named 'a-2'"),
        ("jobs many a", 1, "'many' is not a number from 1 to 20000"),
        ("jobs 0 a", 1, "'0' is not a number from 1 to 20000"),
        ("jobs 99999999999999999999 a", 1, "is not a number from 1 to 20000"),
        ("jobs 1000000000 a", 1, "'1000000000' is not a number from 1 to 20000"),
        ("jobs 20000 a\njob b", 2, "these are more than 20000 jobs"),
        (String(repeating: "at 5s pull eth0\n", count: 1001), 1001, "these are more than 1000 changes; next: simulate fewer"),
        ("network eth0", 1, "an address with its prefix length is missing; next: write for example: network eth0"),
        ("network eth0 192.0.2.300/24 via 192.0.2.1", 1, "'192.0.2.300/24' is not an address"),
        ("network eth0 192.0.2.1/24 gateway 192.0.2.1", 1, "'gateway' stands where 'via' belongs"),
        ("network eth0 192.0.2.1/24", 1, "the line ends where 'via' belongs"),
        ("network eth0 192.0.2.1/24 via router", 1, "'router' is not an IP address"),
        ("network e/th 192.0.2.1/24 via 192.0.2.2", 1, "a name has 1 to 15 bytes"),
        ("network lo 192.0.2.1/24 via 192.0.2.2", 1, "a link named 'lo' exists already"),
        ("network eth0 192.0.2.1/24 via 192.0.2.2 plugged", 1, "'plugged' does not belong here"),
        ("at 5s", 1, "a change is missing; next: write for example: at 5s pull eth0"),
        ("at 5s pul eth0", 1, "'pul' is not a change; next: try 'pull'"),
        ("job a\nat 5s pull eth1", 2, "'eth1' is not a network; next: try 'eth0'"),
        ("job a\nat 5s default", 2, "the name of a network, or 'none', is missing"),
        ("job a\nat 2s down eth0\nat 5s default eth0", 3, "eth0 is down (ENETDOWN); next: change it"),
        ("at 5s suspend long", 1, "'long' is not a duration"),
        ("at 5s retry-now please", 1, "'please' does not belong here"),
        ("server s answers", 1, "an HTTP status is missing"),
        ("server s answers 99", 1, "'99' is not a number from 200 to 599"),
        ("server s answers 500 retry-after 2s", 1, "status 500 orders no delay; next: use retry-after with 429 or 503"),
        ("server s answers 500 drops", 1, "a line has one behaviour"),
        ("server s from 5s", 1, "a behaviour is missing"),
        ("server s drops from 5s to 5s", 1, "the period ends before it begins"),
        ("policy", 1, "the name of a policy is missing"),
        ("policy p --attempts 0", 1, "--attempts is below 1; next: use 1 or more"),
        ("policy p --backoff quick", 1, "not a backoff; next: write immediate"),
        ("policy p --retries 3", 1, "'--retries'; next: use the options of run: --backoff"),
        ("policy p --give-up-on 2", 1, "--give-up-on is about exit codes of commands; next: leave it out"),
        ("policy p --help", 1, "not an option of a policy; next: use the options of run"),
        ("policy p stray", 1, "'stray'"),
        ("policy p\npolicy p", 2, "there is a policy 'p' in line 1"),
        ("release quickly", 1, "'quickly' is not a release policy; next: use one of: gated"),
        ("release paced", 1, "the number of starts per second is missing"),
        ("release paced -3", 1, "'-3' is not a rate"),
        ("release paced inf", 1, "'inf' is not a rate"),
        ("release gated\nrelease gated", 2, "'release' is given twice; next: remove this line or line 1"),
        ("timeout 0s", 1, "the timeout is zero"),
        ("until 0s", 1, "the simulation ends at zero"),
    ])
    func wrongLinesAreReported(_ text: String, _ line: Int, _ part: String) throws {
        let errors = errors(text)
        let error = try #require(errors.last)
        #expect(error.hasPrefix("line \(line): ") && error.contains(part), "\(errors)")
        #expect(error.contains("; next: "), "\(error)")
        #expect(errors.count == 1, "one mistake, one error: \(errors)")
    }

    @Test func allWrongLinesAreReportedTogether() {
        let errors = errors("policy p --attempts x\njob a policy p\njob b policy q\nuntil never")
        #expect(errors.count == 3 && zip(errors, [1, 3, 4]).allSatisfy { $0.hasPrefix("line \($1): ") }, "\(errors)")
        let many = #expect(throws: ScenarioErrors.self) { try parse(String(repeating: "nonsense\n", count: 1000)) }
        #expect(many?.list.map(\.line) == Array(1...10), "the rest is not read")
    }

    @Test func bytesThatAreNotUTF8AreReported() {
        let errors = #expect(throws: ScenarioErrors.self) { try ScenarioParser.parse(Array("job a\n".utf8) + [0xff, 0xfe]) }
        #expect(errors?.list.map(\.description) == ["line 2: not UTF-8; next: save the file as UTF-8"])
    }

    @Test func errorsQuoteHostileWords() throws {
        let word = "\u{1b}[31m\u{202e}" + String(repeating: "x", count: 5000)
        for line in ["\(word)", "job a \(word)", "policy p \(word)", "policy p --backoff \(word)", "at 5s pull \(word)\njob a"] {
            let error = try #require(errors(line).first)
            #expect(isHarmless(error) && error.count < 600, "\(error)")
        }
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func garbageNeverTraps(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let bytes = (0..<1 << 17).flatMap { _ in withUnsafeBytes(of: random.next()) { Array($0) } }
        #expect(throws: ScenarioErrors.self) { try ScenarioParser.parse(bytes) }
    }
}
