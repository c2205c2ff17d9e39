struct Photo: Sendable {
    var name: String
}

struct Refusal: Error {
    var status: Int
    var retryAfter: Duration?
}

protocol PhotoServer: Sendable {
    func store(_ photo: Photo) async throws
}

func upload(_ photos: [Photo], to server: some PhotoServer) async throws {
    for photo in photos {
        try await server.store(photo)
    }
}
