import Foundation
import Reachability

/// What `ip` says about links, addresses and ways, read with nothing of the code under test.
struct KernelView: Sendable {
    /// A question to the forwarding table.
    struct Question: Hashable, Sendable {
        var destination: String
        var mark = 0

        var isIPv6: Bool { destination.contains(":") }
        fileprivate var line: String { "route get \(destination)\(mark == 0 ? "" : " mark \(mark)")" }
    }

    /// What `ip route get` answers: a way, or words of refusal.
    enum Answer: Hashable, Sendable {
        case way(device: String, gateway: String?, source: String?)
        case refusal(String)
    }

    struct Link: Decodable, Hashable, Sendable {
        struct Address: Decodable, Hashable, Sendable {
            var family: String
            var local: String?
            var tentative: Bool?
            var optimistic: Bool?
            var dadfailed: Bool?
        }

        var ifindex: Int?
        var ifname: String?
        var flags: [String]?
        var operstate: String?
        var addresses: [Address]?

        enum CodingKeys: String, CodingKey {
            case ifindex, ifname, flags, operstate
            case addresses = "addr_info"
        }
    }

    private struct Route: Decodable {
        struct Via: Decodable { var host: String }
        var dev: String
        var gateway: String?
        var via: Via?
        var prefsrc: String?
        var type: String?
    }

    /// What cannot be made sense of.
    struct Unreadable: Error, CustomStringConvertible {
        var description: String
    }

    var links: [Link]
    /// The answers to each question: several if it was asked several times and the kernel did not always say the same.
    var answers: [Question: Set<Answer>]

    /// The commands that ask, for a shell; `prefix` goes before `ip`.
    static func script(_ questions: [Question], prefix: String = "") -> String {
        """
        errors=$({ \(prefix) ip -j -force -batch - 2>&1 >&3 <<'END'
        address show
        \(questions.map(\.line).joined(separator: "\n"))
        END
        } ) 3>&1
        echo "errors:"
        echo "$errors"

        """
    }

    /// Reads the commands' output: the answers in their order, then complaints with the number of the line that they are about.
    init(_ questions: [Question], _ output: String) throws {
        let parts = output.split(separator: "errors:\n", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else { throw Unreadable(description: output) }
        var documents = parts[0].split(separator: "\n").map { Data($0.utf8) }[...]
        let refusals = try Self.refusals(parts[1])
        guard let first = documents.popFirst() else { throw Unreadable(description: output) }
        links = try JSONDecoder().decode([Link].self, from: first).filter { $0.ifname != nil }
        answers = [:]
        for (number, question) in zip(2..., questions) {
            if let words = refusals[number] {
                answers[question] = [.refusal(words)]
            } else if let document = documents.popFirst(),
                let route = try JSONDecoder().decode([Route].self, from: document).first, (route.type ?? "unicast") == "unicast"
            {
                answers[question] = [.way(device: route.dev, gateway: route.gateway ?? route.via?.host, source: route.prefsrc)]
            } else {
                throw Unreadable(description: "\(question): \(output)")
            }
        }
    }

    private static func refusals(_ text: Substring) throws -> [Int: String] {
        var refusals: [Int: String] = [:]
        var words = ""
        for line in text.split(separator: "\n") {
            if line.hasPrefix("RTNETLINK answers: ") {
                words = String(line.dropFirst("RTNETLINK answers: ".count))
            } else if line.hasPrefix("Command failed -:"), let number = Int(line.dropFirst("Command failed -:".count)) {
                refusals[number] = words
            }
        }
        return refusals
    }

    /// The same with the answers of another view added.
    func merged(with other: KernelView) -> KernelView {
        var merged = self
        merged.answers.merge(other.answers) { $0.union($1) }
        return merged
    }
}
