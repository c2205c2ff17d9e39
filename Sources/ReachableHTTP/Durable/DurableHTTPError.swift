/// An error of a durable request, upload or download that is not the network's or the server's.
///
/// Its text says what is wrong and what to do next. It shows no URL, header or path: stores keep the texts of failures.
public struct DurableHTTPError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of an error; more may be added.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The name.
        public let rawValue: String
        /// Creates a code.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The URL is not one of HTTP, or names no host.
        public static let unsupportedURL = Code(rawValue: "unsupportedURL")
        /// The method is not a word.
        public static let invalidMethod = Code(rawValue: "invalidMethod")
        /// A header cannot be sent, or is there twice.
        public static let invalidHeader = Code(rawValue: "invalidHeader")
        /// The path is not that of a file.
        public static let invalidPath = Code(rawValue: "invalidPath")
        /// The expected SHA-256 is not one.
        public static let invalidDigest = Code(rawValue: "invalidDigest")
        /// The body is larger than ``DurableRequest/largestBody``.
        public static let bodyTooLarge = Code(rawValue: "bodyTooLarge")
        /// URL, method and headers are larger than ``DurableRequest/largestHead``.
        public static let headTooLarge = Code(rawValue: "headTooLarge")
        /// The file to upload does not exist.
        public static let fileMissing = Code(rawValue: "fileMissing")
        /// The file to upload cannot be read.
        public static let fileUnreadable = Code(rawValue: "fileUnreadable")
        /// The file to upload has changed since the upload was created.
        public static let fileChanged = Code(rawValue: "fileChanged")
        /// The file to upload has changed while it was sent, and the server has accepted something.
        public static let fileChangedWhileSent = Code(rawValue: "fileChangedWhileSent")
        /// The destination of a download cannot be written.
        public static let fileUnwritable = Code(rawValue: "fileUnwritable")
        /// Another attempt still writes the download, or its partial file was removed meanwhile.
        public static let fileInUse = Code(rawValue: "fileInUse")
        /// The server's file does not have the expected length.
        public static let lengthMismatch = Code(rawValue: "lengthMismatch")
        /// The downloaded file does not have the expected SHA-256.
        public static let digestMismatch = Code(rawValue: "digestMismatch")
    }

    /// The kind of the error.
    public var code: Code
    /// The statement of what is wrong.
    public var message: String
    /// The advice what to do next.
    public var advice: String

    init(_ code: Code, _ message: String, next advice: String) { (self.code, self.message, self.advice) = (code, message, advice) }

    /// The message and the advice.
    public var description: String { "\(message); next: \(advice)" }
}
