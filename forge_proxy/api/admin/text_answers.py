"""`/admin/v1/text-answers`: what was learned of each model's bare text (DESIGN §4), and how to have it forgotten."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from forge_proxy.api.errors import error_response
from forge_proxy.api.identity import request_id_of
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.jsontypes import Json
from forge_proxy.engine.text_answers import TextAnswers


class TextAnswerFigures:
    """The endpoints. `policy` is the daemon's; one request can narrow it for itself."""

    def __init__(self, learned: TextAnswers, policy: GuardPolicy) -> None:
        self._learned = learned
        self._policy = policy

    async def all(self, request: Request) -> Response:
        """The figures of every model; DELETE begins anew with all of them."""
        if request.method == "DELETE":
            self._learned.forget()
        return self._list(request)

    async def forget(self, request: Request) -> Response:
        """Begin anew with one model."""
        try:
            self._learned.forget(request.path_params["name"])
        except ForgeError as error:
            return error_response(error, {"x-request-id": request_id_of(request)})
        return self._list(request)

    def _list(self, request: Request) -> Response:
        data: list[Json] = [
            {
                "model": model,
                "texts": figures.texts,
                "nudges": figures.nudges,
                "calls": figures.calls,
                "share": figures.share,
                "now": self._learned.now(self._policy, model),
            }
            for model, figures in self._learned.figures.items()
        ]
        body = {"object": "list", "text_answers": self._policy.text_answers, "data": data}
        return JSONResponse(body, headers={"x-request-id": request_id_of(request)})
