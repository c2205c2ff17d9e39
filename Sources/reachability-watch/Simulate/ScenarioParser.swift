import ArgumentParser
import CommandKit
import Reachability
import ReachabilityTesting
import ReachableRetry

/// Reads a scenario file: docs/simulate.md has the grammar.
struct ScenarioParser {
    /// A scripted change with its line.
    private struct Event {
        var at: Duration
        var action: ScriptedNetwork.Action
        var line: ScenarioLine
    }

    /// The words that begin a line, each with an example.
    private static let statements = [
        "network": "network eth0 192.0.2.10/24 via 192.0.2.1", "at": "at 5s pull eth0",
        "server": "server photos answers 503 retry-after 30s from 10s to 60s",
        "policy": "policy careful --backoff exponential:1s..30s --attempts 10",
        "job": "job upload at 2s to photos policy careful takes 300ms priority interactive",
        "jobs": "jobs 100 photo at 2s every 50ms to photos policy careful", "release": "release gated", "timeout": "timeout 10s",
        "until": "until 2m",
    ]

    private var scenario: Scenario
    private var errors: [ScenarioError] = []
    private var events: [Event] = []
    /// The names of jobs.
    private var names: Set<String> = []
    /// The jobs' lines, which may name servers and policies of later lines.
    private var jobLines: [(line: ScenarioLine, isSeveral: Bool)] = []
    /// The lines of policies.
    private var policyLines: [String: Int] = [:]
    /// The lines of the statements that may be given once.
    private var single: [String: Int] = [:]
    private let defaults: RetryOptions

    private init(_ defaults: RetryOptions) {
        self.defaults = defaults
        scenario = Scenario(policies: [ScriptedPolicy(name: ScriptedPolicy.standardName, defaults)])
    }

    /// Returns the scenario of a file.
    static func parse(_ bytes: [UInt8]) throws(ScenarioErrors) -> Scenario {
        // No word, no mistake.
        guard let defaults = try? RetryOptions.parse([]) else { throw ScenarioErrors(list: []) }
        var parser = ScenarioParser(defaults)
        parser.read(bytes)
        parser.finish()
        guard parser.errors.isEmpty else { throw ScenarioErrors(list: parser.errors.sorted { $0.line < $1.line }) }
        return parser.scenario
    }

    /// True after so many errors that the rest is not read.
    private var isHopeless: Bool { errors.count >= ScenarioErrors.most }

    // MARK: - Lines

    private mutating func read(_ bytes: [UInt8]) {
        var number = 0
        for line in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) where !isHopeless {
            number += 1
            let line = line.last == UInt8(ascii: "\r") ? line.dropLast() : line
            guard let text = String(validating: line, as: UTF8.self) else {
                errors.append(ScenarioError(line: number, message: "not UTF-8; next: save the file as UTF-8"))
                continue
            }
            do throws(ScenarioError) {
                try read(ScenarioLine(number: number, text[...]))
                noteTitle(text)
            } catch {
                errors.append(error)
            }
        }
    }

    /// Takes the first comment as the title; `#!` names an interpreter.
    private mutating func noteTitle(_ text: String) {
        guard scenario.title == nil, text.hasPrefix("#"), !text.hasPrefix("#!") else { return }
        let title = text.drop { $0 == "#" || $0 == " " || $0 == "\t" }
        if !title.isEmpty { scenario.title = String(title.prefix(200)) }
    }

    private mutating func read(_ line: ScenarioLine) throws(ScenarioError) {
        var line = line
        guard !line.isEmpty else { return }
        let statement = try line.word("a statement", "until 2m")
        guard let example = Self.statements[statement] else {
            throw line.unknown(statement, "a statement", Self.statements.keys.sorted())
        }
        switch statement {
        case "network": try readNetwork(&line, example)
        case "at": try readEvent(&line, example)
        case "server": try readServer(&line, example)
        case "policy": try readPolicy(&line, example)
        case "job", "jobs": jobLines.append((line, statement == "jobs"))
        case "release":
            try claim(statement, line)
            scenario.release = try release(&line)
        case "timeout":
            try claim(statement, line)
            scenario.timeout = try line.duration("the time without a packet", example)
            guard scenario.timeout > .zero else { throw line.error("the timeout is zero", "use a longer time, such as 10s") }
        default:
            try claim(statement, line)
            let end = try line.duration("the end", example)
            guard end > .zero else { throw line.error("the simulation ends at zero", "use a later time, such as 2m") }
            scenario.until = end
        }
        // Words of jobs are read at the end of the file.
        if !statement.hasPrefix("job") { try line.end(example) }
    }

    private mutating func claim(_ statement: String, _ line: ScenarioLine) throws(ScenarioError) {
        if let first = single[statement] {
            throw line.error("'\(statement)' is given twice", "remove this line or line \(first)")
        }
        single[statement] = line.number
    }

    /// Reports that there are too many things of a kind: each attempt looks through them.
    private func limit(
        _ count: Int, _ things: String, _ line: ScenarioLine, to most: Int = Scenario.mostNames
    ) throws(ScenarioError) {
        guard count < most else { throw line.error("these are more than \(most) \(things)", "simulate fewer") }
    }

    // MARK: - Statements

    private mutating func readNetwork(_ line: inout ScenarioLine, _ example: String) throws(ScenarioError) {
        let name = try line.name("the name of a network interface", example)
        try limit(scenario.network.addressCount, "addresses", line)
        let address = try line.word("an address with its prefix length", example)
        try line.expect("via", example)
        let gateway = try line.word("the address of a gateway", example)
        guard IPAddress(gateway) != nil else {
            throw line.error("'\(quotation(gateway))' is not an IP address", "write for example: \(example)")
        }
        let isPlugged = !line.take("unplugged")
        do throws(SimulationError) {
            try scenario.network.addLink(name, address, via: gateway, isPlugged: isPlugged)
        } catch {
            throw line.error(ForeignText(error.message).terminal, "write for example: \(example)")
        }
    }

    private mutating func readEvent(_ line: inout ScenarioLine, _ example: String) throws(ScenarioError) {
        let time = try line.duration("a time", example)
        let word = try line.word("a change", example)
        let action: ScriptedNetwork.Action
        switch word {
        case "pull": action = .pull(try line.word("the name of a network", example))
        case "plug": action = .plug(try line.word("the name of a network", "at 20s plug eth0"))
        case "down": action = .down(try line.word("the name of a network", "at 5s down eth0"))
        case "up": action = .up(try line.word("the name of a network", "at 20s up eth0"))
        case "default":
            let name = try line.word("the name of a network, or 'none',", "at 5s default wlan0")
            action = .defaultRoute(name == "none" ? nil : name)
        case "suspend": action = .suspend(try line.duration("the length of the suspension", "at 5s suspend 8h"))
        case "retry-now": action = .retryNow
        default: throw line.unknown(word, "a change", ["pull", "plug", "down", "up", "default", "suspend", "retry-now"])
        }
        try limit(events.count, "changes", line, to: Scenario.mostChanges)
        events.append(Event(at: time, action: action, line: line))
    }

    private mutating func readServer(_ line: inout ScenarioLine, _ example: String) throws(ScenarioError) {
        let name = try line.name("the name of a server", example)
        let index = scenario.servers.firstIndex { $0.name == name } ?? scenario.servers.count
        if index == scenario.servers.count {
            try limit(index, "servers", line)
            scenario.servers.append(ScriptedServer(name: name))
        }
        guard !line.isEmpty else { return }
        var (from, until) = (Duration.zero, Duration?.none)
        var behaviour: ScriptedServer.Behaviour?
        while !line.isEmpty {
            let word = try line.word("a behaviour", example)
            switch word {
            case "from": from = try line.duration("the beginning", example)
            case "to": until = try line.duration("the end", example)
            case "answers" where behaviour == nil: behaviour = try answer(&line, example)
            case "refuses" where behaviour == nil: behaviour = .refuses
            case "drops" where behaviour == nil: behaviour = .drops
            case "unreachable" where behaviour == nil: behaviour = .unreachable
            case "answers", "refuses", "drops", "unreachable":
                throw line.error("a line has one behaviour", "write one line for each, with from and to")
            default: throw line.unknown(word, "a behaviour", ["answers", "refuses", "drops", "unreachable", "from", "to"])
            }
        }
        guard let behaviour else { throw line.error("a behaviour is missing", "write for example: \(example)") }
        if let until, until <= from { throw line.error("the period ends before it begins", "exchange from and to") }
        try limit(scenario.servers[index].phases.count, "lines for a server", line)
        scenario.servers[index].phases.append(.init(behaviour: behaviour, from: from, until: until))
    }

    private func answer(_ line: inout ScenarioLine, _ example: String) throws(ScenarioError) -> ScriptedServer.Behaviour {
        let status = try line.number("an HTTP status", 200...599, example)
        guard line.take("retry-after") else { return .answers(status, retryAfter: nil) }
        guard [429, 503].contains(status) else {
            throw line.error("status \(status) orders no delay", "use retry-after with 429 or 503")
        }
        return .answers(status, retryAfter: try line.duration("the delay", example))
    }

    private mutating func readPolicy(_ line: inout ScenarioLine, _ example: String) throws(ScenarioError) {
        let name = try line.name("the name of a policy", example)
        if let first = policyLines[name] {
            throw line.error("there is a policy '\(quotation(name))' in line \(first)", "choose another name")
        }
        try limit(policyLines.count, "policies", line)
        policyLines[name] = line.number
        let index = name == ScriptedPolicy.standardName ? 0 : scenario.policies.count
        // Jobs may name it although its options have a mistake.
        if index > 0 { scenario.policies.append(ScriptedPolicy(name: name, defaults)) }
        scenario.policies[index] = ScriptedPolicy(name: name, try options(line.remaining(), line))
    }

    private func options(_ words: [String], _ line: ScenarioLine) throws(ScenarioError) -> RetryOptions {
        do {
            let options = try RetryOptions.parse(words)
            guard options.giveUpOn == nil else {
                throw line.error("--give-up-on is about exit codes of commands", "leave it out: an answer such as 404 is final")
            }
            return options
        } catch let error as ScenarioError {
            throw error
        } catch {
            let advice = "use the options of run: --backoff, --jitter, --attempts, --deadline, --attempt-timeout, --connectivity"
            // Requests for help are errors with the text of the help.
            guard RetryOptions.exitCode(for: error) != .success else { throw line.error("not an option of a policy", advice) }
            let lines = quotingInput(in: RetryOptions.message(for: error), words: words).split(separator: "\n")
            let message = lines.joined(separator: " ")
            throw line.error(message, message.contains("next:") ? nil : advice)
        }
    }

    private func release(_ line: inout ScenarioLine) throws(ScenarioError) -> ReleasePolicy {
        let word = try line.word("a release policy", "release gated")
        switch word {
        case "gated": return .gated
        case "immediate": return .immediate
        case "spread": return .spread(over: try line.duration("the longest delay", "release spread 60s"))
        case "paced":
            let number = try line.word("the number of starts per second", "release paced 10")
            let isNumber = number.utf8.allSatisfy {
                (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || $0 == UInt8(ascii: ".")
            }
            guard isNumber, let rate = Double(number), (0.001...1_000_000).contains(rate) else {
                throw line.error("'\(quotation(number))' is not a rate", "write a number from 0.001 to 1000000, such as 10 or 0.5")
            }
            return .paced(perSecond: rate)
        default: throw line.unknown(word, "a release policy", ["gated", "immediate", "paced", "spread"])
        }
    }

    // MARK: - The end of the file

    private mutating func finish() {
        if scenario.network.linkNames.isEmpty {
            // Cannot fail: the kernel accepts this address (the tests begin without a network line).
            try? scenario.network.addLink("eth0", "192.0.2.10/24", via: "192.0.2.1", isPlugged: true)
        }
        scenario.network.begin()
        // Sorting is stable: changes of one moment stay in the order of their lines.
        for event in events.sorted(by: { $0.at < $1.at }) where !isHopeless {
            do throws(ScenarioError) { try play(event) } catch { errors.append(error) }
        }
        for (line, isSeveral) in jobLines where !isHopeless {
            do throws(ScenarioError) { try readJobs(line, isSeveral: isSeveral) } catch { errors.append(error) }
        }
        if jobLines.isEmpty, errors.isEmpty {
            errors.append(ScenarioError(line: 1, message: "there is no job; next: add a line such as: job upload at 2s"))
        }
    }

    private mutating func play(_ event: Event) throws(ScenarioError) {
        let names = scenario.network.linkNames
        switch event.action {
        case .pull(let name), .plug(let name), .down(let name), .up(let name), .defaultRoute(let name?):
            guard names.contains(name) else { throw event.line.unknown(name, "a network", names) }
        case .defaultRoute(nil), .suspend, .retryNow: break
        }
        do throws(SimulationError) {
            try scenario.network.add(event.action, at: event.at)
        } catch {
            throw event.line.error(
                "'\(quotation("\(event.action)"))' is not possible: \(ForeignText(error.message).terminal)",
                "change it, or the lines for earlier times")
        }
    }

    private mutating func readJobs(_ line: ScenarioLine, isSeveral: Bool) throws(ScenarioError) {
        var line = line
        let example = Self.statements[isSeveral ? "jobs" : "job"] ?? ""
        let count = isSeveral ? try line.number("the number of jobs", 1...Scenario.mostJobs, example) : 1
        let name = try line.name("a name", example)
        var job = ScriptedJob(name: name)
        var interval = Duration.zero
        var given: Set<String> = []
        while !line.isEmpty {
            let word = try line.word("an option", example)
            guard given.insert(word).inserted else { throw line.error("'\(quotation(word))' is given twice", "remove one of them") }
            switch word {
            case "at": job.at = try line.duration("the time of the submission", example)
            case "every" where isSeveral: interval = try line.duration("the time between two submissions", example)
            case "to": job.server = try line.index(of: "server", in: scenario.servers.map(\.name), "server photos")
            case "policy":
                let names = scenario.policies.map(\.name)
                job.policy = try line.index(of: "policy", in: names, "policy careful --attempts 10")
            case "takes": job.takes = try line.duration("the time until the answer", example)
            case "priority":
                let priorities: [JobPriority] = [.interactive, .normal, .bulk]
                job.priority = priorities[try line.index(of: "priority", in: priorities.map { "\($0)" }, example)]
            default:
                let options = ["at", "every", "to", "policy", "takes", "priority"]
                throw line.unknown(word, "an option of a job", isSeveral ? options : options.filter { $0 != "every" })
            }
        }
        guard scenario.jobs.count + count <= Scenario.mostJobs else {
            throw line.error("these are more than \(Scenario.mostJobs) jobs", "simulate fewer")
        }
        for number in 1...count {
            if isSeveral { job.name = "\(name)-\(number)" }
            guard names.insert(job.name).inserted else {
                throw line.error("there are two jobs named '\(quotation(job.name))'", "choose another name")
            }
            scenario.jobs.append(job)
            job.at = min(job.at + interval, DurationArgument.longest)
        }
    }
}
