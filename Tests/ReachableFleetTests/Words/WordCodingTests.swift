import Testing

@testable import ReachableFleet

@Suite struct WordCodingTests {
    private static let longest = String(repeating: "x", count: 64)

    @Test(arguments: FleetNode.State.allCases.filter { $0 != .unknown }) func wordsSurviveCoding(state: FleetNode.State) throws {
        let largest = WordCoding.largestNumber
        for reason in [nil, Self.longest] {
            let word = FleetWord(
                epoch: largest, first: largest, run: try FleetName(Self.longest), sequence: largest, state: state, reason: reason,
                since: largest)
            let payload = WordCoding.payload(word)
            #expect(payload.count <= WordCoding.largest)
            #expect(try WordCoding.word(payload) == word)
        }
    }

    @Test func formIsStable() throws {
        let word = FleetWord(
            epoch: 3, first: 2, run: try FleetName("b-1"), sequence: 7, state: .offline, reason: "noCarrier", since: 1_700_000_000)
        let text = #"{"boot":"b-1","epoch":3,"first":2,"reason":"noCarrier","seq":7,"since":1700000000,"state":"offline","v":1}"#
        #expect(String(decoding: WordCoding.payload(word), as: UTF8.self) == text)
        let trigger = TriggerWord(sender: try FleetName("b-1"), sequence: 1, deadline: 1_700_000_030)
        #expect(String(decoding: WordCoding.payload(trigger), as: UTF8.self) == #"{"from":"b-1","seq":1,"until":1700000030,"v":1}"#)
        #expect(try WordCoding.trigger(WordCoding.payload(trigger)) == trigger)
    }

    @Test func laterReleasesMayAddKeys() throws {
        let text = #"{"v":1,"epoch":3,"boot":"b","seq":7,"state":"online","reason":null,"since":5,"site":{"x":[1]}}"#
        let word = try WordCoding.word(Array(text.utf8))
        #expect(word.first == 3 && word.reason == nil && word.state == .online)
    }

    static let bad: [(text: String, problem: WordProblem)] = [
        ("", .malformed),
        ("null", .malformed),
        ("[]", .malformed),
        ("{}", .malformed),
        (#"{"v":"1"}"#, .malformed),
        (#"{"v":2}"#, .foreignVersion),
        (#"{"v":0,"epoch":"x"}"#, .foreignVersion),
        (#"{"v":1}"#, .malformed),
        (#"{"v":1,"epoch":0,"boot":"b","seq":7,"state":"online","since":5}"#, .malformed),
        (#"{"v":1,"epoch":-1,"boot":"b","seq":7,"state":"online","since":5}"#, .malformed),
        (#"{"v":1,"epoch":9007199254740992,"boot":"b","seq":7,"state":"online","since":5}"#, .malformed),
        (#"{"v":1,"epoch":1e300,"boot":"b","seq":7,"state":"online","since":5}"#, .malformed),
        (#"{"v":1,"epoch":1,"first":2,"boot":"b","seq":7,"state":"online","since":5}"#, .malformed),
        (#"{"v":1,"epoch":1,"boot":"","seq":7,"state":"online","since":5}"#, .malformed),
        (#"{"v":1,"epoch":1,"boot":"a b","seq":7,"state":"online","since":5}"#, .malformed),
        (#"{"v":1,"epoch":1,"boot":"b","seq":7,"state":"unknown","since":5}"#, .malformed),
        (#"{"v":1,"epoch":1,"boot":"b","seq":7,"state":"Online","since":5}"#, .malformed),
        (#"{"v":1,"epoch":1,"boot":"b","seq":7,"state":"online","since":-5}"#, .malformed),
        (#"{"v":1,"epoch":1,"boot":"b","seq":7,"state":"online","reason":"\u001b[2J","since":5}"#, .malformed),
        (#"{"v":1,"epoch":1,"boot":"b","seq":7,"state":"online","since":5"#, .malformed),
        (String(repeating: "[", count: 1024), .malformed),
        (String(repeating: "[", count: 1025), .oversized),
    ]

    @Test(arguments: bad.map(\.text)) func badWordsAreRefused(text: String) throws {
        let problem = try #require(Self.bad.first { $0.text == text }).problem
        #expect(throws: problem) { try WordCoding.word(Array(text.utf8)) }
        #expect(throws: problem) { try WordCoding.trigger(Array(text.utf8)) }
    }

    @Test func invalidTextIsRefused() {
        #expect(throws: WordProblem.malformed) { try WordCoding.word([0x7b, 0xff, 0xfe, 0x7d]) }
    }
}

@Suite struct FleetNameTests {
    @Test(arguments: ["a", "nas.example-1_x", "..", String(repeating: "z", count: 64)]) func validNames(text: String) throws {
        #expect(try FleetName(text).description == text)
    }

    @Test(arguments: ["", "a b", "a/b", "+", "#", "ä", "a\0", "a\n", "$SYS", String(repeating: "z", count: 65)])
    func invalidNames(text: String) {
        #expect(throws: FleetError(.invalidName, subject: text)) { try FleetName(text) }
    }

    @Test func errorsNameTheRemedy() {
        for code in [FleetError.Code.invalidName, .reservedName, .notConnected] {
            #expect(FleetError(code, subject: "x y").description.contains("; next: "))
        }
    }

    static let topics: [(text: String, topic: FleetTopic?)] = [
        ("reach/v1/site/nas/status", .status(TestMember.name("nas"))),
        ("reach/v1/site/trigger/now", .trigger(TestMember.name("now"))),
        ("reach/v1/site/trigger/status", .trigger(TestMember.name("status"))),
        ("reach/v1/other/nas/status", nil),
        ("reach/v2/site/nas/status", nil),
        ("reach/v1/site/nas/dest", nil),
        ("reach/v1/site/nas/status/x", nil),
        ("reach/v1/site//status", nil),
        ("reach/v1/site/trigger/", nil),
        ("/reach/v1/site/nas/status", nil),
        ("", nil),
        (String(repeating: "/", count: 100_000), nil),
    ]

    @Test(arguments: topics.indices) func topicsAreRead(index: Int) {
        let (text, topic) = Self.topics[index]
        #expect(FleetTopic(text, site: TestMember.site) == topic)
        if let topic { #expect(topic.text(site: TestMember.site) == text) }
    }
}
