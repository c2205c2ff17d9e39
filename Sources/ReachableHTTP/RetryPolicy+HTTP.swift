internal import Foundation
internal import FoundationNetworking
public import ReachableRetry

extension RetryPolicy {
    /// Classifies the errors of HTTP requests that an operation or a handler makes, like the requests of this library.
    ///
    /// For handlers of durable jobs and other operations that make their requests themselves, for example with
    /// `URLSession.attempt(_:)`:
    ///
    /// ```swift
    /// queue.registerJob(parameters: Upload.self, policy: .default.classifyingHTTP()) { upload, attempt in
    ///     try await session.attempt(upload.request(key: attempt.idempotencyKey), fromFile: upload.file)
    /// }
    /// ```
    ///
    /// It knows ``HTTPStatusError``, `URLError`, and a shortage of descriptors or memory as `POSIXError`. Other errors are left to
    /// further classifiers. A failure that the classifier does not repeat, such as the status 404, ends the job.
    ///
    /// - Parameters:
    ///   - classifier: The rule. `HTTPFailure.method` is empty: a policy does not see requests.
    ///   - isIdempotent: `true` if the requests may be sent twice, such as `PUT`, or any with an idempotency key. With `false` a
    ///     request is repeated only if it was never sent or not carried out.
    public func classifyingHTTP(_ classifier: HTTPRetryClassifier = .standard, isIdempotent: Bool = true) -> RetryPolicy {
        classifyEvidence { error in
            HTTPFailure(of: error, isIdempotent: isIdempotent).map { classifier.report(on: $0) }
        }
    }
}

extension HTTPFailure {
    /// Creates a failure from an error of a client; `nil` if the error is of another kind.
    fileprivate init?(of error: any Error, isIdempotent: Bool) {
        if let response = error as? any ErrorResponse {
            self.init(response, method: "", isIdempotent: isIdempotent)
        } else if let fault = ConnectionFault(cut: error as? RetryError) ?? ConnectionFault(of: error) {
            self.init(fault, method: "", isIdempotent: isIdempotent, error: error)
        } else {
            return nil
        }
    }
}

extension ConnectionFault {
    /// Creates a fault from an error of a client, or from a shortage of this machine; `nil` for other errors.
    fileprivate init?(of error: any Error) {
        if error is URLError {
            self = URLRequest.fault(of: error)
        } else if let error = error as? POSIXError, [.EMFILE, .ENFILE, .ENOMEM].contains(error.code) {
            self.init(unsent: error)
        } else {
            return nil
        }
    }
}
