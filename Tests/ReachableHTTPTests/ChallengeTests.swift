import Dispatch
import Foundation
import FoundationNetworking
import MisbehavingServer
import Reachability
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import TestSupport
import Testing

/// Responses that ask for credentials, which Foundation on Linux waits for.
@Suite(.timeLimit(.minutes(20))) struct ChallengeTests {
    private static let challenges = ["Basic realm=\"x\"", "Digest realm=\"x\", nonce=\"1\"", "Negotiate", "Bearer", "NTLM, Basic"]

    @Test(arguments: challenges) func challengeIsAnAnswer(_ challenge: String) async throws {
        try await Exchange.run { _ in
            .respond(401, ["WWW-Authenticate": challenge], "who is there?")
        } _: { exchange in
            let (data, response) = try await exchange.session.data(
                for: try exchange.request(), retrying: .steady, on: exchange.bus)
            #expect(response.statusCode == 401 && data == Data("who is there?".utf8))
            #expect(response.value(forHTTPHeaderField: "WWW-Authenticate") == challenge)
            let error = try await #require(throws: HTTPStatusError.self) {
                _ = try await exchange.session.upload(
                    for: try exchange.request("PUT"), from: Data([1]), retrying: .steady, on: exchange.bus,
                    options: .with { $0.errorStatuses = .thrown })
            }
            #expect(error.status == 401 && error.data == data)
            let (file, denied) = try await exchange.session.download(
                for: try exchange.request(), retrying: .steady, on: exchange.bus)
            defer { try? FileManager.default.removeItem(at: file) }
            #expect(denied.statusCode == 401)
            #expect(try Data(contentsOf: file) == data)
            #expect(exchange.server.requests.count == 3, "an answer is not repeated")
        }
    }

    @Test(arguments: challenges) func proxyChallengeIsAnAnswer(_ challenge: String) async throws {
        try await Exchange.run { _ in
            .respond(407, ["Proxy-Authenticate": challenge], "who is there?")
        } _: { exchange in
            let (data, response) = try await exchange.session.data(
                for: try exchange.request(), retrying: .steady, on: exchange.bus)
            #expect(response.statusCode == 407 && data == Data("who is there?".utf8))
        }
    }

    @Test func validatorGetsAnAnswerToo() async throws {
        try await Exchange.run { _ in
            .respond(401, ["WWW-Authenticate": "Basic realm=\"x\""])
        } _: { exchange in
            let url = try #require(try exchange.request().url)
            let finding = try await HTTPPathValidator(url: url).validate(.unknown)
            #expect(finding == .failed("\(url) answered with status 401"))
        }
    }

    /// The body of the 401 differs from that of the answer.
    private static func answerToAnyone(_ request: Request) -> Reply {
        request.headers["authorization"] == nil
            ? .respond(401, ["WWW-Authenticate": "Basic realm=\"x\""], "who is there?") : .respond(200, [:], "hello")
    }

    @Test func sessionDelegateProvidesCredentials() async throws {
        try await Exchange.run(Self.answerToAnyone) { exchange in
            let keeper = PasswordKeeper()
            let session = URLSession(configuration: .ephemeral, delegate: keeper, delegateQueue: nil)
            defer { session.finishTasksAndInvalidate() }
            let (data, response) = try await session.data(for: try exchange.request(), retrying: .steady, on: exchange.bus)
            #expect(response.statusCode == 200 && data == Data("hello".utf8))
            #expect(keeper.asked.value == 1)
        }
    }

    /// Foundation stops the program if a task is cancelled while it takes credentials.
    @Test func challengedRequestCanBeCancelled() async {
        await #expect(processExitsWith: .success) {
            try await Exchange.run(Self.answerToAnyone) { exchange in
                let session = URLSession(configuration: .ephemeral, delegate: PasswordKeeper(), delegateQueue: nil)
                defer { session.finishTasksAndInvalidate() }
                for index in 0..<200 {
                    let loading = Task { [request = try exchange.request()] in
                        try await session.data(for: request, retrying: .steady, on: exchange.bus)
                    }
                    DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(index * 7919 % 5001)) { loading.cancel() }
                    _ = await loading.result
                }
            }
        }
    }
}

/// A delegate that knows a password.
final class PasswordKeeper: NSObject, URLSessionTaskDelegate {
    let asked = Counter()

    func urlSession(
        _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
        completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
        asked.add()
        completionHandler(.useCredential, URLCredential(user: "u", password: "p", persistence: .forSession))
    }
}
