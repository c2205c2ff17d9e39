import ReachableHTTP
import Testing

/// The rule for continuing downloads.
@Suite struct PartialDownloadTests {
    /// A download with 50 of 100 bytes, from a response with these headers.
    private func broken(_ headers: [String: String]) -> PartialDownload {
        var partial = PartialDownload()
        #expect(partial.resume().isEmpty)
        #expect(partial.begin(status: 200, header: { headers[$0] }, length: 100) == .restart)
        partial.receive(50)
        return partial
    }

    private func resumed(_ headers: [String: String] = ["ETag": "\"a\""]) -> PartialDownload {
        var partial = broken(headers)
        #expect(!partial.resume().isEmpty)
        return partial
    }

    @Test(arguments: [
        ["ETag": "\"a\""], ["ETag": "\"\""], ["ETag": "\"a\"", "Accept-Ranges": "bytes", "Content-Encoding": "identity"],
        ["Last-Modified": "Sun, 06 Nov 1994 08:48:37 GMT", "Date": "Sun, 06 Nov 1994 08:49:37 GMT"],
    ])
    func strongValidatorAllowsResumption(headers: [String: String]) throws {
        var partial = broken(headers)
        let request = partial.resume()
        #expect(request.map(\.name) == ["Range", "If-Range"])
        #expect(request.map(\.value) == ["bytes=50-", try #require(headers["ETag"] ?? headers["Last-Modified"])])
    }

    @Test(arguments: [
        [:], ["ETag": "W/\"a\""], ["ETag": "a"], ["ETag": "\""], ["ETag": "\"a\"", "Accept-Ranges": "none"],
        ["ETag": "\"a\"", "Content-Encoding": "gzip"],
        ["Last-Modified": "Sun, 06 Nov 1994 08:48:38 GMT", "Date": "Sun, 06 Nov 1994 08:49:37 GMT"],
        ["Last-Modified": "Sun, 06 Nov 1994 08:48:37 GMT"], ["Last-Modified": "long ago", "Date": "Sun, 06 Nov 1994 08:49:37 GMT"],
        // A date is no substitute for a tag that the server calls weak.
        ["ETag": "W/\"a\"", "Last-Modified": "Sun, 06 Nov 1994 08:48:37 GMT", "Date": "Sun, 06 Nov 1994 08:49:37 GMT"],
    ])
    func weakValidatorForbidsResumption(headers: [String: String]) {
        var partial = broken(headers)
        #expect(partial.resume().isEmpty)
    }

    @Test func restIsAppended() {
        var partial = resumed()
        let headers = ["Content-Range": "bytes 50-99/100", "ETag": "\"a\""]
        #expect(partial.begin(status: 206, header: { headers[$0] }, length: 50) == .append)
        partial.receive(49)
        #expect(!partial.isComplete)
        partial.receive(1)
        #expect(partial.isComplete)
    }

    @Test(arguments: [
        [:], ["Content-Range": "bytes 49-99/100"], ["Content-Range": "bytes 51-99/100"], ["Content-Range": "bytes 50-98/99"],
        ["Content-Range": "bytes 50-99/100", "ETag": "\"b\""], ["Content-Range": "bytes 50-99/100", "Content-Encoding": "gzip"],
        ["Content-Range": "bytes */100"], ["Content-Range": "bytes 50-40/100"], ["Content-Range": "bytes 50-100/100"],
        ["Content-Range": "bytes 50-99"], ["Content-Range": "lines 50-99/100"], ["Content-Range": "bytes +50-99/100"],
        ["Content-Range": "bytes 50-99/100/100"], ["Content-Range": "bytes 50-99999999999999999999/*"],
    ])
    func mismatchedPartDiscardsBytes(headers: [String: String]) {
        var partial = resumed()
        let headers = headers.merging(["ETag": "\"a\""]) { given, _ in given }
        #expect(partial.begin(status: 206, header: { headers[$0] }, length: 50) == .mismatch)
        #expect(partial == PartialDownload() && partial.resume().isEmpty)
    }

    @Test(arguments: [nil, "W/\"a\""]) func partWithoutItsTagIsNotJoined(tag: String?) {
        var partial = resumed()
        let headers = ["Content-Range": "bytes 50-99/100", "ETag": tag]
        #expect(partial.begin(status: 206, header: { headers[$0] ?? nil }, length: 50) == .mismatch)
    }

    /// If-Range was ignored.
    @Test(arguments: [nil, "Sun, 06 Nov 1994 08:48:38 GMT"]) func anotherDateIsNotJoined(date: String?) {
        var partial = broken(["Last-Modified": "Sun, 06 Nov 1994 08:48:37 GMT", "Date": "Sun, 06 Nov 1994 08:49:37 GMT"])
        #expect(!partial.resume().isEmpty)
        let headers = ["Content-Range": "bytes 50-99/100", "Last-Modified": date]
        #expect(partial.begin(status: 206, header: { headers[$0] ?? nil }, length: 50) == .mismatch)
    }

    @Test(arguments: ["bytes 0-49/100", "bytes 50-99/100", "bytes 0-99/*", "bytes */100", "all"])
    func partIsNoWhole(range: String) {
        var partial = PartialDownload()
        for status in [200, 206] {
            #expect(partial.resume().isEmpty)
            #expect(partial.begin(status: status, header: { $0 == "Content-Range" ? range : nil }, length: 50) == .mismatch)
        }
        #expect(partial.begin(status: 200, header: { $0 == "Content-Range" ? "bytes 0-99/100" : nil }, length: 100) == .restart)
    }

    @Test func sizeThatHasArrivedCompletes() {
        var partial = resumed()
        #expect(partial.begin(status: 416, header: { $0 == "Content-Range" ? "bytes */50" : nil }, length: 0) == .mismatch)
        partial = PartialDownload()
        #expect(partial.begin(status: 200, header: { $0 == "ETag" ? "\"a\"" : nil }, length: nil) == .restart)
        partial.receive(50)
        var other = partial
        #expect(!partial.resume().isEmpty && !other.resume().isEmpty)
        let answer = ["Content-Range": "bytes */50", "ETag": "\"b\""]
        #expect(other.begin(status: 416, header: { answer[$0] }, length: 0) == .mismatch, "it is another file")
        #expect(partial.begin(status: 416, header: { $0 == "Content-Range" ? answer[$0] : nil }, length: 0) == .complete)
        #expect(partial.isComplete && partial.total == 50)
    }

    @Test func wholeResponseDiscardsBytes() {
        var partial = resumed()
        #expect(partial.begin(status: 200, header: { $0 == "ETag" ? "\"b\"" : nil }, length: 10) == .restart)
        #expect(partial.received == 0 && partial.total == 10 && !partial.isComplete)
        partial.receive(5)
        #expect(partial.accepts(5) && !partial.accepts(6))
        #expect(partial.resume().map(\.value) == ["bytes=5-", "\"b\""])
    }

    @Test func errorResponseKeepsBytes() {
        var partial = resumed()
        for status in [301, 404, 429, 503] {
            #expect(partial.begin(status: status, header: { _ in nil }, length: 3) == .errorResponse)
            #expect(partial.resume().map(\.value) == ["bytes=50-", "\"a\""])
        }
        #expect(partial.begin(status: 416, header: { _ in nil }, length: 0) == .mismatch, "the whole is shorter than the part")
        #expect(partial.begin(status: 416, header: { _ in nil }, length: 0) == .errorResponse, "for a caller's own range")
    }

    @Test func callersOwnRangeIsWhole() {
        var partial = PartialDownload()
        #expect(partial.resume(hasOwnRange: true).isEmpty)
        let headers = ["Content-Range": "bytes 50-99/100", "ETag": "\"a\""]
        #expect(partial.begin(status: 206, header: { headers[$0] }, length: 50) == .restart)
        partial.receive(20)
        #expect(partial.resume(hasOwnRange: true).isEmpty && partial.resume().isEmpty)
    }

    @Test func unknownSizeIsLearnedFromPart() {
        var partial = PartialDownload()
        #expect(partial.begin(status: 200, header: { $0 == "ETag" ? "\"a\"" : nil }, length: nil) == .restart)
        partial.receive(50)
        #expect(!partial.resume().isEmpty)
        let part = ["ETag": "\"a\"", "Content-Range": "bytes 50-59/100"]
        #expect(partial.begin(status: 206, header: { part[$0] }, length: 10) == .append)
        partial.receive(10)
        #expect(!partial.isComplete && partial.total == 100)
    }
}
