"""Bodies of the calls about trust."""

from pydantic import BaseModel, Field

from pock_server.http.fields import Base64Signature


class TrustSignature(BaseModel):
    """One root key's signature over the document's type, a line end (`pock-trust\\n`) and the payload's bytes."""

    key_id: str = Field(pattern=r"^[0-9a-f]{16}$", description="First 16 hexadecimal digits of the key's SHA-256.")
    signature: Base64Signature


class RootSigned(BaseModel):
    """What root keys sign."""

    payload: str = Field(max_length=32_768, description="Base64 of the JSON text that is signed.")
    signatures: list[TrustSignature] = Field(max_length=32)


class TrustDocument(RootSigned):
    """Root keys and signing keys, signed by the root keys of the version before and by its own."""


class Introduction(BaseModel):
    """The newest document for a device that pinned a signing key alone, vouched for by that key.

    The signature is over `pock-trust-introduction\\n{device_id}\\n` and the SHA-256 (hexadecimal) of the payload.
    """

    document: TrustDocument
    key_id: str
    signature: Base64Signature
