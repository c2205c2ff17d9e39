internal import FoundationEssentials

/// The reasons for which a payload is ignored.
enum WordProblem: Error {
    case malformed, oversized, foreignVersion
}

/// The JSON form of words.
///
/// Unknown keys are ignored, so that later releases may add some. Texts are tokens without control characters: they reach logs,
/// terminals and pages.
enum WordCoding {
    /// The largest payload in bytes.
    static let largest = 1024
    /// The largest epoch or sequence: it fits in a JSON number, and counting never reaches it.
    static let largestNumber: UInt64 = 1 << 53 - 1
    private static let version = 1

    /// Returns a word's version if it is this one, before anything else: the keys of another version may have other types.
    private static func version(_ v: Int) throws -> Int {
        guard v == version else { throw WordProblem.foreignVersion }
        return v
    }

    private struct Form: Codable {
        var v: Int
        var epoch: UInt64?
        var first: UInt64?
        var boot: String?
        var seq: UInt64?
        var state: String?
        var reason: String?
        var since: UInt64?
        var from: String?
        var until: UInt64?

        init() { v = version }

        init(from decoder: any Decoder) throws {
            let values = try decoder.container(keyedBy: CodingKeys.self)
            v = try version(values.decode(Int.self, forKey: .v))
            func number(_ key: CodingKeys) throws -> UInt64? {
                let number = try values.decodeIfPresent(UInt64.self, forKey: key)
                guard number ?? 0 <= largestNumber else { throw WordProblem.malformed }
                return number
            }
            func token(_ key: CodingKeys) throws -> String? {
                let text = try values.decodeIfPresent(String.self, forKey: key)
                guard text.map(FleetName.isValid) ?? true else { throw WordProblem.malformed }
                return text
            }
            (epoch, first, seq) = (try number(.epoch), try number(.first), try number(.seq))
            (since, until) = (try number(.since), try number(.until))
            (boot, reason, from) = (try token(.boot), try token(.reason), try token(.from))
            state = try values.decodeIfPresent(String.self, forKey: .state)
        }
    }

    private static func form(_ payload: [UInt8]) throws(WordProblem) -> Form { try decode(Form.self, payload) }

    private static func decode<Form: Decodable>(_ type: Form.Type, _ payload: [UInt8]) throws(WordProblem) -> Form {
        guard payload.count <= largest else { throw .oversized }
        do {
            return try JSONDecoder().decode(type, from: Data(payload))
        } catch let problem as WordProblem {
            throw problem
        } catch {
            throw .malformed
        }
    }

    private static func encode(_ form: some Encodable) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        // Numbers and short texts only: nothing that could fail.
        return (try? encoder.encode(form)).map { [UInt8]($0) } ?? []
    }

    /// Reads the word of a node.
    static func word(_ payload: [UInt8]) throws(WordProblem) -> FleetWord {
        let form = try form(payload)
        guard let epoch = form.epoch, let run = form.boot.flatMap({ try? FleetName($0) }), let sequence = form.seq,
            let state = form.state.flatMap(FleetNode.State.init), state != .unknown, let since = form.since
        else { throw .malformed }
        let first = form.first ?? epoch
        guard epoch > 0, first <= epoch else { throw .malformed }
        return FleetWord(
            epoch: epoch, first: first, run: run, sequence: sequence, state: state, reason: form.reason, since: since)
    }

    /// Returns the payload of a node's word.
    static func payload(_ word: FleetWord) -> [UInt8] {
        var form = Form()
        (form.epoch, form.first, form.boot, form.seq) = (word.epoch, word.first, word.run.description, word.sequence)
        (form.state, form.since) = (word.state.rawValue, min(word.since, largestNumber))
        form.reason = word.reason.flatMap { FleetName.isValid($0) ? $0 : nil }
        return encode(form)
    }

    /// Reads a trigger.
    static func trigger(_ payload: [UInt8]) throws(WordProblem) -> TriggerWord {
        let form = try form(payload)
        guard let sender = form.from.flatMap({ try? FleetName($0) }), let sequence = form.seq, let deadline = form.until
        else { throw .malformed }
        return TriggerWord(sender: sender, sequence: sequence, deadline: deadline)
    }

    /// Returns the payload of a trigger.
    static func payload(_ trigger: TriggerWord) -> [UInt8] {
        var form = Form()
        (form.from, form.seq, form.until) = (trigger.sender.description, trigger.sequence, min(trigger.deadline, largestNumber))
        return encode(form)
    }
}
